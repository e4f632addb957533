package rmqordered.testclients;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** What the clients of RocketMQ 5 and 4 call differently: this is how it is said in 4, as far as it can be. */
final class Dialect {
    private Dialect() {
    }

    static void commit(DefaultLitePullConsumer consumer) {
        consumer.commitSync();
    }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void letBrokerRebalance(DefaultMQPushConsumer consumer) {
        throw new UnsupportedOperationException("RocketMQ 4 has no rebalance by the broker");
    }

    static void hideFor(DefaultMQPushConsumer consumer, long millis) {
        throw new UnsupportedOperationException("RocketMQ 4 does not pop");
    }

    /** Reports topic and queues at each rebalance, changed or not: RocketMQ 4 has no listener for a push consumer. */
    static void onAssignment(DefaultMQPushConsumer consumer, BiConsumer<String, Set<MessageQueue>> report) {
        consumer.setAllocateMessageQueueStrategy(new AllocateMessageQueueAveragely() {
            @Override
            public List<MessageQueue> allocate(
                String group, String clientId, List<MessageQueue> queues, List<String> clientIds) {
                List<MessageQueue> mine = super.allocate(group, clientId, queues, clientIds);
                report.accept(queues.get(0).getTopic(), new HashSet<>(mine));
                return mine;
            }
        });
    }

    static void deliverAfter(Message message, long millis) {
        throw new UnsupportedOperationException("RocketMQ 4 knows delay levels only");
    }

    static void deliverAt(Message message, long epochMillis) {
        throw new UnsupportedOperationException("RocketMQ 4 knows delay levels only");
    }
}
