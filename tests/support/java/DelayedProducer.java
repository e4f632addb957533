package rmqordered.testclients;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends each {@code HOW<TAB>BODY} line, where HOW is {@code level=N}, {@code after=MILLIS}, {@code at=MILLIS} or a
 * property {@code name=value} of the message.
 */
public final class DelayedProducer {
    private DelayedProducer() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Arguments arguments = new Arguments(args);
        DefaultMQProducer producer = Producers.start(arguments);
        try (BufferedReader input = Lines.input()) {
            String line;
            while ((line = input.readLine()) != null) {
                String[] parts = line.split("\t", 2);
                SendResult result = producer.send(message(arguments.required("topic"), parts[0], parts[1]));
                Map<String, Object> sent = Lines.event("sent");
                Producers.describe(result, sent);
                Lines.print(sent);
            }
        }
        Producers.shutdownAndExit(producer);
    }

    private static Message message(String topic, String how, String body) {
        Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        String[] pair = how.split("=", 2);
        switch (pair[0]) {
            case "level" -> message.setDelayTimeLevel(Integer.parseInt(pair[1]));
            case "after" -> message.setDelayTimeMs(Long.parseLong(pair[1]));
            case "at" -> message.setDeliverTimeMs(Long.parseLong(pair[1]));
            default -> message.putUserProperty(pair[0], pair[1]);
        }
        return message;
    }
}
