package rmqordered.handler

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import scala.jdk.CollectionConverters._

import rmqordered.model.{MessageQueue, Subscription}
import rmqordered.protocol.{Body, ResponseCode}
import rmqordered.util.Json

/** JSON pieces that several handlers read or write. */
object Bodies {

  def messageQueue(queue: MessageQueue): ObjectNode =
    Json
      .obj()
      .put("brokerName", queue.brokerName)
      .put("queueId", queue.queueId)
      .put("topic", queue.topic)

  /**
   * An answer with a table keyed by message queues. RocketMQ writes such keys as bare objects,
   * which is not JSON, and its clients from 5.4 on (fastjson2) read nothing else.
   */
  def queueTable(name: String, entries: Seq[String], rest: ObjectNode): Response =
    Response(ResponseCode.Success, body = Body(queueTableText(name, entries, rest).getBytes(UTF_8)))

  /** One line of such a table. */
  def queueEntry(queue: MessageQueue, value: JsonNode): String =
    s"${Json.text(messageQueue(queue))}:${Json.text(value)}"

  def queueTableText(name: String, entries: Seq[String], rest: ObjectNode): String = {
    val end = if (rest.isEmpty) "}" else "," + Json.text(rest).tail
    entries.mkString(s"""{"$name":{""", ",", "}") + end
  }

  def messageQueues(nodes: JsonNode): Seq[MessageQueue] =
    nodes
      .elements()
      .asScala
      .map { node =>
        MessageQueue(
          node.path("topic").asText(),
          node.path("brokerName").asText(),
          node.path("queueId").asInt()
        )
      }
      .toSeq

  def subscription(node: JsonNode): Subscription = Subscription(
    topic = node.path("topic").asText(),
    expression = node.path("subString").asText(Subscription.All),
    expressionType = node.path("expressionType").asText(Subscription.TagType),
    subVersion = node.path("subVersion").asLong(),
    tags = node.path("tagsSet").elements().asScala.map(_.asText()).toSeq
  )

  def subscription(subscription: Subscription): ObjectNode = {
    val node = Json
      .obj()
      .put("classFilterMode", false)
      .put("expressionType", subscription.expressionType)
      .put("subString", subscription.expression)
      .put("subVersion", subscription.subVersion)
      .put("topic", subscription.topic)
    val codes = node.putArray("codeSet")
    subscription.tags.foreach(tag => codes.add(tag.hashCode))
    node.set[ArrayNode]("tagsSet", Json.texts(subscription.tags))
    node
  }

  /** RocketMQ's DataVersion; nothing here depends on it, admin tools print it. */
  def dataVersion(): ObjectNode =
    Json.obj().put("counter", 0).put("stateVersion", 0).put("timestamp", 0)
}
