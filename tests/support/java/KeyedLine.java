package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.common.message.Message;

/** One {@code KEY<TAB>VALUE} line of standard input. */
final class KeyedLine {
    /** RocketMQ 5 has a constant for it, RocketMQ 4 only the habit. */
    static final String SHARDING_KEY = "__SHARDINGKEY";

    final String key;
    final String value;

    private KeyedLine(String key, String value) {
        this.key = key;
        this.value = value;
    }

    static KeyedLine parse(String line) {
        int tab = line.indexOf('\t');
        if (tab < 0) {
            throw new IllegalArgumentException("expected KEY<TAB>VALUE, found: " + line);
        }
        return new KeyedLine(line.substring(0, tab), line.substring(tab + 1));
    }

    /** KEYS is always set; the sharding key only on request, since Java's selectors do not set it. */
    Message toMessage(String topic, boolean withShardingKey) {
        Message message = new Message(topic, value.getBytes(StandardCharsets.UTF_8));
        if (!key.isEmpty()) {
            message.setKeys(key);
            if (withShardingKey) {
                message.putUserProperty(SHARDING_KEY, key);
            }
        }
        return message;
    }
}
