package rmqordered.testclients;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Answers line by line which queue Apache's own hash selector picks.
 *
 * <p>In: {@code {"key": "...", "queues": 8}}, the key escaped so that lone surrogates and control characters
 * survive. Out: the hash code of the key and the index chosen.
 */
public final class SelectorOracle {
    private SelectorOracle() {
    }

    public static void main(String[] args) throws Exception {
        Lines.claimStandardOutput();
        SelectMessageQueueByHash selector = new SelectMessageQueueByHash();
        try (BufferedReader input = Lines.input()) {
            String line;
            while ((line = input.readLine()) != null) {
                JSONObject question = JSON.parseObject(line);
                String key = question.getString("key");
                List<MessageQueue> queues = queues(question.getIntValue("queues"));
                Map<String, Object> answer = Lines.event("chosen");
                answer.put("hashCode", key.hashCode());
                answer.put("index", selector.select(queues, null, key).getQueueId());
                Lines.print(answer);
            }
        }
    }

    private static List<MessageQueue> queues(int count) {
        List<MessageQueue> queues = new ArrayList<>(count);
        for (int queueId = 0; queueId < count; queueId++) {
            queues.add(new MessageQueue("topic", "broker", queueId));
        }
        return queues;
    }
}
