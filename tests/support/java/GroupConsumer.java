package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Apache's push consumer that filters by {@code --sql}, and gives {@code --fail-body} back until it is dead. */
public final class GroupConsumer implements MessageListenerConcurrently {
    /** One second, the shortest there is. */
    private static final int RETRY_DELAY_LEVEL = 1;

    private final Receipts receipts;
    private final String failBody;

    private GroupConsumer(Arguments arguments, Receipts receipts) {
        this.receipts = receipts;
        this.failBody = arguments.optional("fail-body");
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Arguments arguments = new Arguments(args);
        Receipts receipts = new Receipts(arguments);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes((int) arguments.number("max-reconsume-times", -1));
        String sql = arguments.optional("sql");
        MessageSelector wanted = sql == null ? MessageSelector.byTag("*") : MessageSelector.bySql(sql);
        consumer.subscribe(arguments.required("topic"), wanted);
        consumer.setMessageListener(new GroupConsumer(arguments, receipts));
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
        // The batch size is 1 by default: one message succeeds or fails on its own.
        MessageExt message = messages.get(0);
        boolean success = !new String(message.getBody(), StandardCharsets.UTF_8).equals(failBody);
        receipts.handled(message, System.currentTimeMillis(), success);
        context.setDelayLevelWhenNextConsume(RETRY_DELAY_LEVEL);
        return success ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }
}
