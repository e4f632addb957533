package rmqordered.handler

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode, TextNode}

import scala.jdk.CollectionConverters._

import rmqordered.model.{MessageQueue, Subscription}
import rmqordered.protocol.{Body, Language, ResponseCode}
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
   * An answer with a table keyed by message queues. Java writes such keys as bare objects, which is
   * not JSON, and since RocketMQ 5.4 (fastjson2) reads nothing else; everybody else gets JSON, with
   * the object as text in a string key.
   */
  def queueTable(
      language: String,
      name: String,
      table: Seq[(MessageQueue, ObjectNode)],
      rest: ObjectNode
  ): Response = {
    def key(queue: MessageQueue): String = {
      val text = Json.text(messageQueue(queue))
      if (language == Language.Java) text else Json.text(TextNode.valueOf(text))
    }
    val entries = table.map { case (queue, value) => s"${key(queue)}:${Json.text(value)}" }
    val end = if (rest.isEmpty) "}" else "," + Json.text(rest).tail
    val text = entries.mkString(s"""{"$name":{""", ",", "}") + end
    Response(ResponseCode.Success, body = Body(text.getBytes(UTF_8)))
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
