package rmqordered.testclients;

import java.util.Arrays;

/**
 * Lets Apache's clients shut down at once. They wait for a thread that takes events off a queue and looks only every
 * three seconds whether it should end; the programs of the tests would spend most of their lives waiting for it.
 */
final class Shutdowns {
    /** The class's name in every release; its package is not the same. */
    private static final String SERVICE_THREAD = ".ServiceThread";
    private static final String IDLE_THREAD = "NettyEventExecutor";
    private static final long LOOK_MILLIS = 20;

    private Shutdowns() {
    }

    /** Watches the calling thread from now on, and wakes the idle thread while this one waits for it. */
    static void hasten() {
        Thread caller = Thread.currentThread();
        Thread watcher = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(LOOK_MILLIS);
                    if (isShuttingDown(caller)) {
                        wakeIdleThreads();
                    }
                }
            } catch (InterruptedException stopping) {
                Thread.currentThread().interrupt();
            }
        }, "hasten-shutdown");
        watcher.setDaemon(true);
        watcher.start();
    }

    private static boolean isShuttingDown(Thread caller) {
        return Arrays.stream(caller.getStackTrace())
            .anyMatch(frame -> frame.getClassName().endsWith(SERVICE_THREAD)
                && frame.getMethodName().equals("shutdown"));
    }

    private static void wakeIdleThreads() {
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().contains(IDLE_THREAD))
            .forEach(Thread::interrupt);
    }
}
