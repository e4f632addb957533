package rmqordered.testclients;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs one command of Apache's mqadmin and leaves at once, not when the last of its threads has idled out. */
public final class Mqadmin {
    private Mqadmin() {
    }

    public static void main(String[] args) {
        MQAdminStartup.main(args);
        System.exit(0);
    }
}
