package rmqordered.testclients;

import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** What the clients of RocketMQ 5 and 4 call differently: this is how it is said in 5. */
final class Dialect {
    private Dialect() {
    }

    static void commit(DefaultLitePullConsumer consumer) {
        consumer.commit();
    }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void letBrokerRebalance(DefaultMQPushConsumer consumer) {
        consumer.setClientRebalance(false);
    }

    static void hideFor(DefaultMQPushConsumer consumer, long millis) {
        consumer.setPopInvisibleTime(millis);
    }

    /** Reports topic and queues whenever a rebalance has changed them. */
    static void onAssignment(DefaultMQPushConsumer consumer, BiConsumer<String, Set<MessageQueue>> report) {
        consumer.setMessageQueueListener((topic, all, assigned) -> report.accept(topic, assigned));
    }

    static void deliverAfter(Message message, long millis) {
        message.setDelayTimeMs(millis);
    }

    static void deliverAt(Message message, long epochMillis) {
        message.setDeliverTimeMs(epochMillis);
    }
}
