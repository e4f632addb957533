package rmqordered.testclients;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Apache's lite pull consumer in subscribe mode. */
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
        consumer.subscribe(arguments.required("topic"), "*");
        consumer.start();
        Receipts.printStarted(consumer.buildMQClientId());
        while (!receipts.isEnough()) {
            for (MessageExt message : consumer.poll(POLL_MILLIS)) {
                receipts.handled(message, System.currentTimeMillis(), true);
            }
        }
        consumer.commit();
        consumer.shutdown();
        Lines.print(Lines.event("stopped"));
        System.exit(0);
    }
}
