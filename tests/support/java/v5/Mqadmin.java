package rmqordered.testclients;

import com.alibaba.fastjson2.JSON;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of Apache's mqadmin, one after another in one JVM: each line is a JSON array with the words of a
 * command, each answer holds all that the command printed and how long it took. Starting a JVM for each would take
 * most of the time.
 */
public final class Mqadmin {
    private Mqadmin() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        try (BufferedReader input = Lines.input()) {
            String line;
            while ((line = input.readLine()) != null) {
                Lines.print(run(JSON.parseArray(line, String.class).toArray(new String[0])));
            }
        }
        // Not when the last thread of the last command has idled out.
        System.exit(0);
    }

    private static Map<String, Object> run(String[] words) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        PrintStream standardError = System.err;
        long begin = System.nanoTime();
        try (PrintStream screen = new PrintStream(output, true, StandardCharsets.UTF_8);
            PrintStream complaints =
                new PrintStream(new OneThreads(errors, standardError), true, StandardCharsets.UTF_8)) {
            System.setOut(screen);
            System.setErr(complaints);
            MQAdminStartup.main0(words, null);
        } finally {
            System.setErr(standardError);
            System.setOut(standardError);
        }
        Map<String, Object> printed = Lines.event("printed");
        printed.put("output", output.toString(StandardCharsets.UTF_8));
        printed.put("errors", errors.toString(StandardCharsets.UTF_8));
        printed.put("millis", (System.nanoTime() - begin) / 1_000_000);
        return printed;
    }

    /**
     * Takes what the thread that made it writes, and passes on what others do: threads that the command before has
     * left behind may still log that their connections are gone.
     */
    private static final class OneThreads extends OutputStream {
        private final Thread owner = Thread.currentThread();
        private final OutputStream mine;
        private final OutputStream theirs;

        OneThreads(OutputStream mine, OutputStream theirs) {
            this.mine = mine;
            this.theirs = theirs;
        }

        @Override
        public void write(int one) throws IOException {
            chosen().write(one);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws IOException {
            chosen().write(bytes, from, count);
        }

        private OutputStream chosen() {
            return Thread.currentThread() == owner ? mine : theirs;
        }
    }
}
