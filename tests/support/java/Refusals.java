package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.message.MessageExt;

/** Which bodies a listener refuses, and how often: {@code --refuse BODY=TIMES,BODY=TIMES}. Thread-safe. */
final class Refusals {
    private final Map<String, AtomicLong> left = new HashMap<>();

    Refusals(Arguments arguments) {
        String listed = arguments.optional("refuse");
        if (listed != null) {
            for (String entry : listed.split(",")) {
                int equals = entry.lastIndexOf('=');
                left.put(entry.substring(0, equals), new AtomicLong(Long.parseLong(entry.substring(equals + 1))));
            }
        }
    }

    boolean refuses(MessageExt message) {
        AtomicLong times = left.get(new String(message.getBody(), StandardCharsets.UTF_8));
        return times != null && times.getAndDecrement() > 0;
    }
}
