package rmqordered.testclients;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/**
 * Load for the benchmarks, made by Apache's client: {@code --mode batch} sends batches round the queues,
 * {@code ordered} sends one by one with the hash selector, {@code pull} reads everything with the lite pull
 * consumer (measured after the first {@code --warm-up} messages), {@code pop} with the push consumer of a group that
 * the broker has switched to POP, until every acknowledgement is answered. Prints how long the measured part took;
 * warming up is not measured.
 */
public final class Load {
    private final Arguments arguments;
    private final int count;
    private Duration spentBefore = Duration.ZERO;

    private Load(Arguments arguments) {
        this.arguments = arguments;
        this.count = (int) arguments.number("count", 100_000);
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        Load load = new Load(new Arguments(args));
        switch (load.arguments.required("mode")) {
            case "batch":
                load.batch();
                break;
            case "ordered":
                load.ordered();
                break;
            case "pull":
                load.pull();
                break;
            case "pop":
                load.pop();
                break;
            default:
                throw new IllegalArgumentException("--mode is batch, ordered, pull or pop");
        }
        System.exit(0);
    }

    private void batch() throws Exception {
        DefaultMQProducer producer = Producers.start(arguments);
        String topic = arguments.required("topic");
        int size = (int) arguments.number("batch-size", 1000);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        byte[] body = body();
        long begin = System.nanoTime();
        for (int sent = 0, turn = 0; sent < count; sent += size, turn++) {
            List<Message> batch = new ArrayList<>(size);
            for (int i = 0; i < size; i++) {
                batch.add(new Message(topic, "TagA", "key-" + (sent + i), body));
            }
            producer.send(batch, queues.get(turn % queues.size()));
        }
        report(begin);
        producer.shutdown();
    }

    private void ordered() throws Exception {
        DefaultMQProducer producer = Producers.start(arguments);
        String topic = arguments.required("topic");
        byte[] body = body();
        SelectMessageQueueByHash selector = new SelectMessageQueueByHash();
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) {
            producer.send(new Message(topic, body), selector, "key-" + i);
        }
        report(begin);
        producer.shutdown();
    }

    private void pull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments.required("group"));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize((int) arguments.number("pull-batch-size", consumer.getPullBatchSize()));
        consumer.subscribe(arguments.required("topic"), "*");
        consumer.start();
        long warmUp = arguments.number("warm-up", 0);
        long begin = 0;
        int seen = 0;
        int seenBefore = 0;
        while (seen < count) {
            List<MessageExt> messages = consumer.poll(1000);
            // Finding the route, balancing the queues and warming up is not what is measured.
            if (begin == 0 && !messages.isEmpty() && seen >= warmUp) {
                begin = System.nanoTime();
                spentBefore = spent();
                seenBefore = seen;
            }
            seen += messages.size();
        }
        report(begin, count - seenBefore);
        consumer.shutdown();
    }

    private void pop() throws Exception {
        CountDownLatch acknowledged = new CountDownLatch(count);
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(arguments.required("group"), new AnsweredAcks(acknowledged));
        Consumers.configure(consumer, arguments);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        Dialect.letBrokerRebalance(consumer);
        consumer.setPopBatchNums(32);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(arguments.required("topic"), "*");
        AtomicLong begin = new AtomicLong();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            // Each message is acknowledged by itself when this returns.
            if (begin.compareAndSet(0, System.nanoTime())) {
                spentBefore = spent();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        acknowledged.await();
        report(begin.get());
        consumer.shutdown();
    }

    /** Counts the acknowledgements that the broker has answered with success: nobody else waits for them. */
    private static final class AnsweredAcks implements RPCHook {
        private final CountDownLatch left;

        AnsweredAcks(CountDownLatch left) {
            this.left = left;
        }

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
            boolean isAck = request.getCode() == RequestCode.ACK_MESSAGE;
            if (isAck && response != null && response.getCode() == ResponseCode.SUCCESS) {
                left.countDown();
            }
        }
    }

    private byte[] body() {
        return new byte[(int) arguments.number("body-bytes", 100)];
    }

    private static Duration spent() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
    }

    private void report(long begin) {
        report(begin, count);
    }

    private void report(long begin, int measured) {
        Map<String, Object> done = Lines.event("done");
        done.put("count", measured);
        done.put("nanos", System.nanoTime() - begin);
        done.put("cpuNanos", spent().minus(spentBefore).toNanos());
        Lines.print(done);
    }
}
