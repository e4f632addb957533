package rmqordered.testclients;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The line protocol between a test and one of these programs: JSON objects out, text lines in.
 *
 * <p>Standard output belongs to this class alone. {@link System#out} is pointed at standard error, so that
 * nothing a library prints can be mistaken for an answer. Thread-safe; every line is flushed.
 */
final class Lines {
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);

    private Lines() {
    }

    /**
     * Must be the first call of every main method. A failure in any thread then ends the program with an
     * error: client threads would otherwise keep it alive, and its test waiting, after main has failed.
     */
    static void claimStandardOutput() {
        System.setOut(System.err);
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
    }

    static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    /** An event object; further fields are added in the order in which they should be read. */
    static Map<String, Object> event(String name) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("event", name);
        fields.put("at", System.currentTimeMillis());
        return fields;
    }

    /** Non-ASCII is escaped: a lone surrogate has no UTF-8 form, but it has an escape. */
    static void print(Map<String, Object> fields) {
        String line = JSON.toJSONString(
            fields, JSONWriter.Feature.EscapeNoneAscii, JSONWriter.Feature.WriteMapNullValue);
        synchronized (OUT) {
            OUT.println(line);
        }
    }

    /** Runs the action once standard input ends, which is how a test asks a program to stop. */
    static void onEndOfInput(Runnable action) {
        Thread watcher = new Thread(() -> {
            try (BufferedReader input = input()) {
                while (input.readLine() != null) {
                    // Lines mean nothing to a consumer; only the end does.
                }
            } catch (IOException broken) {
                System.err.println("standard input broke: " + broken);
            }
            action.run();
        }, "end-of-input");
        watcher.setDaemon(true);
        watcher.start();
    }
}
