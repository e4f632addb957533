package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends the fixed set of messages behind the golden pull body, all to queue 0 of a topic. */
public final class CaptureSender {
    /** Above the producer's threshold of 4 KiB, so that it compresses the body. */
    private static final int LARGE_BODY_BYTES = 5_000;

    private final DefaultMQProducer producer;
    private final MessageQueue queue;

    private CaptureSender(DefaultMQProducer producer, MessageQueue queue) {
        this.producer = producer;
        this.queue = queue;
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Arguments arguments = new Arguments(args);
        DefaultMQProducer producer = Producers.start(arguments);
        CaptureSender sender = new CaptureSender(
            producer, Producers.queue(producer, arguments.required("topic"), 0));
        sender.sendSmall();
        for (CompressionType type : CompressionType.values()) {
            sender.sendCompressed(type);
        }
        sender.sendBatch();
        Lines.print(Lines.event("sent"));
        Producers.shutdownAndExit(producer);
    }

    private void sendSmall() throws Exception {
        producer.send(message("plain"), queue);

        Message labelled = message("with tags, keys and sharding key");
        labelled.setTags("TagA");
        labelled.setKeys(List.of("order-1", "customer-7"));
        labelled.putUserProperty(MessageConst.PROPERTY_SHARDING_KEY, "order-1");
        labelled.setFlag(42);
        producer.send(labelled, queue);

        Message unicode = message("gr\u00fc\u00df \u8ba2\u5355 \ud83d\ude00");
        unicode.setTags("\u6807\u7b7e");
        unicode.putUserProperty(MessageConst.PROPERTY_SHARDING_KEY, "\u8ba2\u5355-1");
        unicode.putUserProperty("farbe", "gr\u00fcn \ud83d\ude00");
        producer.send(unicode, queue);

        byte[] everyByte = new byte[256];
        for (int value = 0; value < everyByte.length; value++) {
            everyByte[value] = (byte) value;
        }
        producer.send(new Message(queue.getTopic(), everyByte), queue);
    }

    private void sendCompressed(CompressionType type) throws Exception {
        producer.setCompressType(type);
        String unit = type + " compresses this. ";
        Message large = message(unit.repeat(LARGE_BODY_BYTES / unit.length() + 1));
        large.setTags(type.name());
        producer.send(large, queue);
    }

    private void sendBatch() throws Exception {
        Message first = message("batch 1 of 3");
        first.setKeys("b1");
        Message second = message("batch 2 of 3");
        second.setTags("TagB");
        second.putUserProperty(MessageConst.PROPERTY_SHARDING_KEY, "order-2");
        producer.send(List.of(first, second, message("batch 3 of 3")), queue);
    }

    private Message message(String body) {
        return new Message(queue.getTopic(), body.getBytes(StandardCharsets.UTF_8));
    }
}
