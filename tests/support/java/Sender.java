package rmqordered.testclients;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Phaser;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends each {@code HOW<TAB>BODY} line. HOW is a list {@code name=value;name=value} of {@code mode} ({@code sync},
 * {@code async} or {@code oneway}), {@code tag}, {@code key}, {@code level=N}, {@code after=MILLIS}, {@code at=MILLIS};
 * any other name is a property of the message. What was sent is printed once its answer is there; a one-way send
 * has none.
 */
public final class Sender {
    private final DefaultMQProducer producer;
    private final String topic;
    private final Phaser unanswered = new Phaser(1);

    private Sender(DefaultMQProducer producer, String topic) {
        this.producer = producer;
        this.topic = topic;
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        DefaultMQProducer producer = Producers.start(arguments);
        Sender sender = new Sender(producer, arguments.required("topic"));
        try (BufferedReader input = Lines.input()) {
            String line;
            while ((line = input.readLine()) != null) {
                String[] parts = line.split("\t", 2);
                sender.send(parts[0], parts[1]);
            }
        }
        sender.unanswered.arriveAndAwaitAdvance();
        Producers.shutdownAndExit(producer);
    }

    private void send(String how, String body) throws Exception {
        Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        String mode = "sync";
        for (String word : how.split(";")) {
            String[] pair = word.split("=", 2);
            if (pair[0].equals("mode")) {
                mode = pair[1];
            } else {
                describe(message, pair[0], pair[1]);
            }
        }
        switch (mode) {
            case "sync" -> printSent(body, producer.send(message));
            case "async" -> sendAsync(message, body);
            case "oneway" -> producer.sendOneway(message);
            default -> throw new IllegalArgumentException("mode is sync, async or oneway, not " + mode);
        }
    }

    private static void describe(Message message, String name, String value) {
        switch (name) {
            case "tag" -> message.setTags(value);
            case "key" -> message.setKeys(value);
            case "level" -> message.setDelayTimeLevel(Integer.parseInt(value));
            case "after" -> Dialect.deliverAfter(message, Long.parseLong(value));
            case "at" -> Dialect.deliverAt(message, Long.parseLong(value));
            default -> message.putUserProperty(name, value);
        }
    }

    private void sendAsync(Message message, String body) throws Exception {
        unanswered.register();
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                printSent(body, result);
                unanswered.arriveAndDeregister();
            }

            @Override
            public void onException(Throwable failure) {
                // The client would swallow what is thrown here, and the test would wait for its deadline.
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
    }

    private static void printSent(String body, SendResult result) {
        Map<String, Object> sent = Lines.event("sent");
        sent.put("body", body);
        Producers.describe(result, sent);
        Lines.print(sent);
    }
}
