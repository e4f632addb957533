package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Prints what a consumer handled and decides when it has seen enough: after a number of messages, after an
 * idle time, or when standard input ends. Thread-safe, since listeners of different queues run in parallel.
 */
final class Receipts {
    private final long maxMessages;
    private final long idleMillis;
    private final CountDownLatch enough = new CountDownLatch(1);
    private long handled;
    private long lastHandledNanos = System.nanoTime();

    Receipts(Arguments arguments) {
        this.maxMessages = arguments.number("max-messages", Long.MAX_VALUE);
        this.idleMillis = arguments.number("idle-ms", Long.MAX_VALUE);
        Lines.onEndOfInput(enough::countDown);
    }

    static void printStarted(String clientId) {
        Map<String, Object> started = Lines.event("started");
        started.put("clientId", clientId);
        Lines.print(started);
    }

    /** Counts and prints a message whose handling succeeded or was refused. */
    synchronized void handled(MessageExt message, long startedAtMillis, boolean success) {
        Map<String, Object> line = Lines.event(success ? "message" : "suspended");
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("key", message.getProperty(KeyedLine.SHARDING_KEY));
        line.put("keys", message.getKeys());
        line.put("tags", message.getTags());
        line.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("msgId", message.getMsgId());
        line.put("startedAt", startedAtMillis);
        line.put("endedAt", System.currentTimeMillis());
        Lines.print(line);
        lastHandledNanos = System.nanoTime();
        if (success && ++handled >= maxMessages) {
            enough.countDown();
        }
    }

    /** Prints a message whose handling does not end. */
    synchronized void held(MessageExt message) {
        Map<String, Object> line = Lines.event("held");
        line.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        Lines.print(line);
    }

    boolean isEnough() {
        return enough.getCount() == 0 || isIdle();
    }

    void awaitEnough() throws InterruptedException {
        while (!enough.await(20, TimeUnit.MILLISECONDS)) {
            if (isIdle()) {
                return;
            }
        }
    }

    private synchronized boolean isIdle() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - lastHandledNanos) > idleMillis;
    }
}
