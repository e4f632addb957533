package rmqordered.testclients;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Apache's push consumer with an orderly listener, which can be told to refuse a body a few times. */
public final class OrderlyConsumer implements MessageListenerOrderly {
    /** How long a refused message waits; the client's default of a second would only slow the tests. */
    private static final long SUSPEND_MILLIS = 100;

    private final Receipts receipts;
    private final Refusals refusals;
    private final long workMillis;

    private OrderlyConsumer(Arguments arguments, Receipts receipts) {
        this.receipts = receipts;
        this.refusals = new Refusals(arguments);
        this.workMillis = arguments.number("work-ms", 0);
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        Receipts receipts = new Receipts(arguments);
        String topic = arguments.required("topic");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes((int) arguments.number("max-reconsume-times", -1));
        consumer.subscribe(topic, "*");
        consumer.setMessageListener(new OrderlyConsumer(arguments, receipts));
        Dialect.onAssignment(consumer, (changed, assigned) -> {
            if (changed.equals(topic)) {
                printAssigned(
                    assigned.stream().map(MessageQueue::getQueueId).sorted().collect(Collectors.toList()));
            }
        });
        consumer.start();
        Consumers.persistOften(consumer);
        Receipts.printStarted(consumer.buildMQClientId());
        receipts.awaitEnough();
        consumer.shutdown();
        Lines.print(Lines.event("stopped"));
        // Client threads that linger (timers, watchers) must not keep the process alive.
        System.exit(0);
    }

    @Override
    public ConsumeOrderlyStatus consumeMessage(List<MessageExt> messages, ConsumeOrderlyContext context) {
        for (MessageExt message : messages) {
            long startedAt = System.currentTimeMillis();
            work();
            if (refusals.refuses(message)) {
                receipts.handled(message, startedAt, false);
                context.setSuspendCurrentQueueTimeMillis(SUSPEND_MILLIS);
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            receipts.handled(message, startedAt, true);
        }
        return ConsumeOrderlyStatus.SUCCESS;
    }

    private void work() {
        try {
            Thread.sleep(workMillis);
        } catch (InterruptedException stopping) {
            Thread.currentThread().interrupt();
        }
    }

    private static void printAssigned(List<Integer> queueIds) {
        Map<String, Object> assigned = Lines.event("assigned");
        assigned.put("queueIds", queueIds);
        Lines.print(assigned);
    }
}
