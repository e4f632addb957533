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

    /**
     * Sends the offsets to the broker each second, by the call of the client's own timer. That timer first fires
     * 10 s after the start, and no test that waits for a commit should take so long.
     */
    @SuppressWarnings("deprecation") // the implementation is public, but not for everybody
    static void persistOften(DefaultMQPushConsumer consumer) {
        Thread timer = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(INTERVAL_MILLIS);
                    consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                }
            } catch (InterruptedException stopping) {
                Thread.currentThread().interrupt();
            }
        }, "persist-often");
        timer.setDaemon(true);
        timer.start();
    }

    static void configure(ClientConfig consumer, Arguments arguments) {
        consumer.setNamesrvAddr(arguments.required("name-server"));
        consumer.setHeartbeatBrokerInterval(INTERVAL_MILLIS);
        consumer.setPollNameServerInterval(INTERVAL_MILLIS);
    }
}
