package rmqordered.testclients;

import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends {@code KEY<TAB>VALUE} lines in batches to one queue, with Apache's own batch encoding. */
public final class BatchProducer {
    private final DefaultMQProducer producer;
    private final MessageQueue queue;

    private BatchProducer(DefaultMQProducer producer, MessageQueue queue) {
        this.producer = producer;
        this.queue = queue;
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        DefaultMQProducer producer = Producers.start(arguments);
        int queueId = (int) arguments.number("queue", 0);
        MessageQueue queue = Producers.queue(producer, arguments.required("topic"), queueId);
        new BatchProducer(producer, queue)
            .sendAll((int) arguments.number("batch-size", 100), arguments.flag("sharding-key"));
        Producers.shutdownAndExit(producer);
    }

    private void sendAll(int batchSize, boolean withShardingKey) throws Exception {
        List<Message> batch = new ArrayList<>();
        try (BufferedReader input = Lines.input()) {
            String line;
            while ((line = input.readLine()) != null) {
                batch.add(KeyedLine.parse(line).toMessage(queue.getTopic(), withShardingKey));
                if (batch.size() == batchSize) {
                    send(batch);
                    batch = new ArrayList<>();
                }
            }
        }
        if (!batch.isEmpty()) {
            send(batch);
        }
    }

    private void send(List<Message> batch) throws Exception {
        SendResult result = producer.send(batch, queue);
        Map<String, Object> sent = Lines.event("sent");
        sent.put("count", batch.size());
        Producers.describe(result, sent);
        Lines.print(sent);
    }
}
