package rmqordered.testclients;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Apache's push consumer with a concurrent listener: no locks, no order, failed messages go through the retry topic.
 * {@code --tags} or {@code --sql} filter, {@code --broadcast true} makes every {@code --instance}
 * get everything. With {@code --server-rebalance true} the broker assigns the queues, and may have it consume by POP,
 * where {@code --invisible-ms} hides what it got. {@code --stuck true} never finishes a message.
 */
public final class ConcurrentConsumer implements MessageListenerConcurrently {
    /** One second, the shortest there is. */
    private static final int RETRY_DELAY_LEVEL = 1;
    private static final long SHUTDOWN_MILLIS = 10_000;

    private final Receipts receipts;
    private final Refusals refusals;
    private final boolean isStuck;

    private ConcurrentConsumer(Arguments arguments, Receipts receipts) {
        this.receipts = receipts;
        this.refusals = new Refusals(arguments);
        this.isStuck = arguments.flag("stuck");
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        Receipts receipts = new Receipts(arguments);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes((int) arguments.number("max-reconsume-times", -1));
        // A call of the listener that has not returned yet: its offset belongs to what is committed at the end.
        consumer.setAwaitTerminationMillisWhenShutdown(SHUTDOWN_MILLIS);
        if (arguments.flag("server-rebalance")) {
            Dialect.letBrokerRebalance(consumer);
            if (arguments.optional("invisible-ms") != null) {
                Dialect.hideFor(consumer, arguments.number("invisible-ms", 0));
            }
        }
        if (arguments.flag("broadcast")) {
            // A cluster member's id holds its process id; a broadcasting one keeps its offsets under a lasting name.
            consumer.setInstanceName(arguments.required("instance"));
            Dialect.broadcast(consumer);
        }
        consumer.subscribe(arguments.required("topic"), selector(arguments));
        consumer.setMessageListener(new ConcurrentConsumer(arguments, receipts));
        consumer.start();
        Consumers.persistOften(consumer);
        Receipts.printStarted(consumer.buildMQClientId());
        receipts.awaitEnough();
        consumer.shutdown();
        Lines.print(Lines.event("stopped"));
        System.exit(0);
    }

    private static MessageSelector selector(Arguments arguments) {
        String sql = arguments.optional("sql");
        String tags = arguments.optional("tags");
        return sql != null ? MessageSelector.bySql(sql) : MessageSelector.byTag(tags == null ? "*" : tags);
    }

    @Override
    public ConsumeConcurrentlyStatus consumeMessage(
        List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        for (MessageExt message : messages) {
            long startedAt = System.currentTimeMillis();
            if (isStuck) {
                receipts.held(message);
                LockSupport.park();
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            if (refusals.refuses(message)) {
                receipts.handled(message, startedAt, false);
                context.setDelayLevelWhenNextConsume(RETRY_DELAY_LEVEL);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            receipts.handled(message, startedAt, true);
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }
}
