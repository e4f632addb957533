package rmqordered.testclients;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.TlsSystemConfig;

/** Sends a message, says what became of it, and consumes the topic; signed and encrypted if told to. */
public final class SecuredClient {
    private SecuredClient() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Shutdowns.hasten();
        Arguments arguments = new Arguments(args);
        RPCHook hook = arguments.optional("access-key") == null ? null : new AclClientRPCHook(
            new SessionCredentials(arguments.required("access-key"), arguments.required("secret-key")));
        trust(arguments.optional("trust"));
        send(arguments, hook);
        consume(arguments, hook);
        System.exit(0);
    }

    private static void trust(String certificate) {
        TlsSystemConfig.tlsTestModeEnable = certificate == null;
        TlsSystemConfig.tlsClientAuthServer = certificate != null;
        TlsSystemConfig.tlsClientTrustCertPath = certificate;
    }

    private static void send(Arguments arguments, RPCHook hook) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("rmq-ordered-test-producer", hook);
        producer.setNamesrvAddr(arguments.required("name-server"));
        producer.setUseTLS(arguments.optional("trust") != null);
        producer.setSendMsgTimeout(10_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        String body = arguments.required("body");
        try {
            producer.send(new Message(arguments.required("topic"), body.getBytes(StandardCharsets.UTF_8)));
            Lines.print(Lines.event("sent"));
        } catch (MQBrokerException refused) {
            printRefusal(refused.getResponseCode(), refused.getErrorMessage());
        } catch (MQClientException failed) {
            printRefusal(failed.getResponseCode(), failed.getErrorMessage());
        } catch (IllegalStateException unreachable) {
            // How the client says that it gave the connection up, a bad certificate among the reasons.
            printRefusal(-1, unreachable.getMessage());
            System.exit(0);
        }
        producer.shutdown();
    }

    private static void printRefusal(int code, String remark) {
        Map<String, Object> refused = Lines.event("refused");
        refused.put("code", code);
        refused.put("remark", remark);
        Lines.print(refused);
    }

    private static void consume(Arguments arguments, RPCHook hook) throws Exception {
        Receipts receipts = new Receipts(arguments);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.required("group"), hook);
        Consumers.configure(consumer, arguments);
        consumer.setUseTLS(arguments.optional("trust") != null);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.required("topic"), "*");
        consumer.setMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                receipts.handled(message, System.currentTimeMillis(), true);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        receipts.awaitEnough();
        consumer.shutdown();
    }
}
