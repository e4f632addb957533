package rmqordered.testclients;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Uses a producer and a consumer where no broker is, so that their classes can be kept for the other programs. */
public final class Rehearsal {
    private Rehearsal() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        String topic = arguments.required("topic");
        DefaultMQProducer producer = Producers.start(arguments);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("rehearsal");
        Consumers.configure(consumer, arguments);
        consumer.subscribe(topic, "*");
        consumer.setMessageListener(
            (MessageListenerOrderly) (messages, context) -> ConsumeOrderlyStatus.SUCCESS);
        inVain(() -> producer.send(new Message(topic, new byte[1])));
        inVain(consumer::start);
        consumer.shutdown();
        Producers.shutdownAndExit(producer);
    }

    private static void inVain(Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (MQClientException | IllegalStateException nobodyThere) {
            Lines.print(Lines.event("refused"));
        }
    }

    private interface Attempt {
        void run() throws Exception;
    }
}
