package rmqordered.testclients;

import java.util.Collection;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's lite pull consumer: in subscribe mode, or with {@code --assign true} on all queues of the topic, there
 * from {@code --seek} on. It commits as it polls, or with {@code --auto-commit false} once at its end.
 */
public final class LitePull {
    private static final long POLL_MILLIS = 200;

    private LitePull() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Arguments arguments = new Arguments(args);
        Receipts receipts = new Receipts(arguments);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(!"false".equals(arguments.optional("auto-commit")));
        if (arguments.flag("assign")) {
            consumer.start();
            assign(consumer, arguments);
        } else {
            consumer.subscribe(arguments.required("topic"), "*");
            consumer.start();
        }
        Receipts.printStarted(consumer.buildMQClientId());
        while (!receipts.isEnough()) {
            for (MessageExt message : consumer.poll(POLL_MILLIS)) {
                receipts.handled(message, System.currentTimeMillis(), true);
            }
        }
        Dialect.commit(consumer);
        consumer.shutdown();
        Lines.print(Lines.event("stopped"));
        System.exit(0);
    }

    private static void assign(DefaultLitePullConsumer consumer, Arguments arguments) throws MQClientException {
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(arguments.required("topic"));
        consumer.assign(queues);
        long start = arguments.number("seek", -1);
        for (MessageQueue queue : queues) {
            if (start >= 0) {
                consumer.seek(queue, start);
            }
            Map<String, Object> found = Lines.event("committed");
            found.put("queueId", queue.getQueueId());
            found.put("queueOffset", consumer.committed(queue));
            Lines.print(found);
        }
    }
}
