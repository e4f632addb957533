package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Apache's push consumer with a concurrent listener: no locks, no order, failed messages go through the retry topic.
 * With {@code --server-rebalance true} the broker assigns the queues, and may have it consume by POP.
 */
public final class ConcurrentConsumer implements MessageListenerConcurrently {
    /** One second, the shortest there is. */
    private static final int RETRY_DELAY_LEVEL = 1;

    private final Receipts receipts;
    private final String failBody;
    private final AtomicLong failuresLeft;

    private ConcurrentConsumer(Arguments arguments, Receipts receipts) {
        this.receipts = receipts;
        this.failBody = arguments.optional("fail-body");
        this.failuresLeft = new AtomicLong(arguments.number("fail-times", 0));
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Arguments arguments = new Arguments(args);
        Receipts receipts = new Receipts(arguments);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(!arguments.flag("server-rebalance"));
        consumer.subscribe(arguments.required("topic"), "*");
        consumer.setMessageListener(new ConcurrentConsumer(arguments, receipts));
        consumer.start();
        Receipts.printStarted(consumer.buildMQClientId());
        receipts.awaitEnough();
        consumer.shutdown();
        Lines.print(Lines.event("stopped"));
        System.exit(0);
    }

    @Override
    public ConsumeConcurrentlyStatus consumeMessage(
        List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        for (MessageExt message : messages) {
            long startedAt = System.currentTimeMillis();
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            if (body.equals(failBody) && failuresLeft.getAndDecrement() > 0) {
                receipts.handled(message, startedAt, false);
                context.setDelayLevelWhenNextConsume(RETRY_DELAY_LEVEL);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            receipts.handled(message, startedAt, true);
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }
}
