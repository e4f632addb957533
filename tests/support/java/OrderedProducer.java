package rmqordered.testclients;

import java.io.BufferedReader;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;

/** Sends each {@code KEY<TAB>VALUE} line synchronously to the queue that Apache's hash selector picks. */
public final class OrderedProducer {
    private OrderedProducer() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        DefaultMQProducer producer = Producers.start(arguments);
        String topic = arguments.required("topic");
        boolean withShardingKey = arguments.flag("sharding-key");
        try (BufferedReader input = Lines.input()) {
            SelectMessageQueueByHash selector = new SelectMessageQueueByHash();
            String line;
            while ((line = input.readLine()) != null) {
                KeyedLine keyed = KeyedLine.parse(line);
                SendResult result =
                    producer.send(keyed.toMessage(topic, withShardingKey), selector, keyed.key);
                Map<String, Object> sent = Lines.event("sent");
                sent.put("key", keyed.key);
                Producers.describe(result, sent);
                Lines.print(sent);
            }
        }
        Producers.shutdownAndExit(producer);
    }
}
