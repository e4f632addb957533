package rmqordered.testclients;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** What the consuming programs share. */
final class Consumers {
    /**
     * Instead of 30 s. A client that starts on a busy machine can lose a race against itself: the heartbeat that
     * announces its rebalanced subscription is dropped because another one is being sent, and its pulls are
     * refused until the next. Likewise a retry topic that comes into being is seen at the next route poll only.
     */
    private static final int INTERVAL_MILLIS = 1_000;

    /**
     * Instead of none. By default a client that stops interrupts its listener threads, and the offset of a message
     * that was just handled may then never be committed.
     */
    private static final int FINISH_MILLIS = 10_000;

    private Consumers() {
    }

    static void configure(DefaultMQPushConsumer consumer, Arguments arguments) {
        configure((ClientConfig) consumer, arguments);
        consumer.setAwaitTerminationMillisWhenShutdown(FINISH_MILLIS);
    }

    static void configure(ClientConfig consumer, Arguments arguments) {
        consumer.setNamesrvAddr(arguments.required("name-server"));
        consumer.setHeartbeatBrokerInterval(INTERVAL_MILLIS);
        consumer.setPollNameServerInterval(INTERVAL_MILLIS);
    }
}
