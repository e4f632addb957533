package rmqordered.testclients;

import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the sending programs share. */
final class Producers {
    private Producers() {
    }

    static DefaultMQProducer start(Arguments arguments) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer("rmq-ordered-test-producer");
        producer.setNamesrvAddr(arguments.required("name-server"));
        // The default of 3 s is too short for a first send on a machine that is busy with other tests.
        producer.setSendMsgTimeout(10_000);
        // Instead of 30 s: a broker knows a producer by its heartbeat, and the first comes before the first route.
        producer.setHeartbeatBrokerInterval(1_000);
        producer.start();
        return producer;
    }

    /** Unregisters, then leaves at once: the network threads would linger for seconds. */
    static void shutdownAndExit(DefaultMQProducer producer) {
        producer.shutdown();
        System.exit(0);
    }

    static MessageQueue queue(DefaultMQProducer producer, String topic, int queueId)
        throws MQClientException {
        return producer.fetchPublishMessageQueues(topic).stream()
            .filter(queue -> queue.getQueueId() == queueId)
            .findFirst()
            .orElseThrow(() -> new IllegalArgumentException(topic + " has no queue " + queueId));
    }

    static void describe(SendResult result, Map<String, Object> fields) {
        fields.put("status", result.getSendStatus().name());
        fields.put("queueId", result.getMessageQueue().getQueueId());
        fields.put("queueOffset", result.getQueueOffset());
        fields.put("msgId", result.getMsgId());
        fields.put("offsetMsgId", result.getOffsetMsgId());
    }
}
