package rmqordered.testclients;

import java.io.BufferedReader;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** Reads pull bodies, one per line in hex, and prints what Apache's own decoder makes of each message. */
public final class BodyDecoder {
    private BodyDecoder() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        try (BufferedReader input = Lines.input()) {
            String line;
            while ((line = input.readLine()) != null) {
                ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(line));
                for (MessageExt message : MessageDecoder.decodes(body)) {
                    Lines.print(describe(message));
                }
            }
        }
    }

    private static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> fields = Lines.event("decoded");
        fields.put("topic", message.getTopic());
        fields.put("queueId", message.getQueueId());
        fields.put("flag", message.getFlag());
        fields.put("queueOffset", message.getQueueOffset());
        fields.put("commitLogOffset", message.getCommitLogOffset());
        fields.put("sysFlag", message.getSysFlag());
        fields.put("bornTimestamp", message.getBornTimestamp());
        fields.put("bornHost", hostAndPort(message.getBornHost()));
        fields.put("storeTimestamp", message.getStoreTimestamp());
        fields.put("storeHost", hostAndPort(message.getStoreHost()));
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        fields.put("bodyCrc", message.getBodyCRC());
        fields.put("storeSize", message.getStoreSize());
        fields.put("msgId", message.getMsgId());
        fields.put("offsetMsgId", ((MessageClientExt) message).getOffsetMsgId());
        fields.put("bodyHex", HexFormat.of().formatHex(message.getBody()));
        fields.put("properties", new TreeMap<>(message.getProperties()));
        return fields;
    }

    private static String hostAndPort(SocketAddress address) {
        InetSocketAddress inet = (InetSocketAddress) address;
        return inet.getAddress().getHostAddress() + ":" + inet.getPort();
    }
}
