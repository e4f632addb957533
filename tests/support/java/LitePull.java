package rmqordered.testclients;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's lite pull consumer: in subscribe mode, or with {@code --assign true} on all queues of the topic, where it
 * goes to {@code --seek} after {@code --seek-after} messages. It commits as it polls, or with
 * {@code --auto-commit false} once at its end.
 */
public final class LitePull {
    private static final long POLL_MILLIS = 200;

    private LitePull() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        Receipts receipts = new Receipts(arguments);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(!"false".equals(arguments.optional("auto-commit")));
        Collection<MessageQueue> queues = List.of();
        if (arguments.flag("assign")) {
            consumer.start();
            queues = assign(consumer, arguments.required("topic"));
        } else {
            consumer.subscribe(arguments.required("topic"), "*");
            consumer.start();
        }
        Receipts.printStarted(consumer.buildMQClientId());
        // Not right after assign, whatever the broker: a pull task that runs already may take the new offset out of the
        // table (nextPullOffset), then find itself cancelled by the same seek and return. Its successor pulls from the
        // group's offset, as if nobody had sought.
        long untilSeek = arguments.number("seek-after", Long.MAX_VALUE);
        while (!receipts.isEnough()) {
            for (MessageExt message : consumer.poll(POLL_MILLIS)) {
                receipts.handled(message, System.currentTimeMillis(), true);
                untilSeek--;
            }
            if (untilSeek == 0) {
                untilSeek = Long.MAX_VALUE;
                for (MessageQueue queue : queues) {
                    consumer.seek(queue, arguments.number("seek", 0));
                }
            }
        }
        Dialect.commit(consumer);
        consumer.shutdown();
        Lines.print(Lines.event("stopped"));
        System.exit(0);
    }

    private static Collection<MessageQueue> assign(DefaultLitePullConsumer consumer, String topic)
        throws MQClientException {
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        consumer.assign(queues);
        for (MessageQueue queue : queues) {
            Map<String, Object> found = Lines.event("committed");
            found.put("queueId", queue.getQueueId());
            found.put("queueOffset", consumer.committed(queue));
            Lines.print(found);
        }
        return queues;
    }
}
