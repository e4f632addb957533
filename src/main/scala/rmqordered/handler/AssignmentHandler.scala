package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode

import rmqordered.group.{
  Allocation,
  ConsumerGroups,
  RequestMode,
  RequestModes,
  SubscriptionGroups
}
import rmqordered.model.{ConsumeMode, MessageQueue, Names, TopicConfig}
import rmqordered.store.TopicTable
import rmqordered.util.Json

/** The broker decides which member consumes what (400), and whether by pulling or popping (401). */
final class AssignmentHandler(
    topics: TopicTable,
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    modes: RequestModes,
    identity: BrokerIdentity
) {

  /** 400. An answer without a list means: keep what you have. */
  def query(call: Call): Unit = {
    val body = call.jsonBody
    val (topic, group) = (body.path("topic").asText(), body.path("consumerGroup").asText())
    val mode = if (Names.isRetryTopic(topic)) RequestMode.default else modes.of(topic, group)
    val root = Json.obj()
    topics.get(topic).flatMap(assigned(_, body, group, mode)).foreach { queueIds =>
      val assignments = root.putArray("messageQueueAssignments")
      queueIds.foreach { id =>
        val queue = Bodies.messageQueue(MessageQueue(topic, identity.brokerName, id))
        assignments.addObject().put("mode", mode.name).set[JsonNode]("messageQueue", queue)
      }
    }
    call.answer(Response.json(root))
  }

  private def assigned(
      topic: TopicConfig,
      body: JsonNode,
      group: String,
      mode: RequestMode
  ): Option[Vector[Int]] = {
    val queues = (0 until topic.readQueueNums).toVector
    if (body.path("messageModel").asText() == ConsumeMode.Broadcasting) Some(queues)
    else
      for {
        view <- consumers.view(group)
        strategy <- Allocation.strategies.get(body.path("strategyName").asText())
      } yield {
        val members = view.members.map(_.identity.clientId).distinct.sorted
        val member = body.path("clientId").asText()
        if (mode.isPop) Allocation.popped(strategy, member, members, queues, mode.sharedQueues)
        else strategy(member, members, queues)
      }
  }

  /** 401. */
  def setMode(call: Call): Unit = {
    val body = call.jsonBody
    val (topic, group) = (body.path("topic").asText(), body.path("consumerGroup").asText())
    if (Names.isRetryTopic(topic))
      throw Failures.noPermission("retry topic is not allowed to set mode")
    if (!topics.contains(topic)) throw Failures.topicNotExist(topic)
    if (groups.get(group).isEmpty) throw Failures.groupNotExist(group)
    val mode = body.path("mode").asText() match {
      case RequestMode.Pop => true
      case RequestMode.Pull => false
      case other => throw Failures.invalid(s"mode is POP or PULL, found '${other.take(40)}'.")
    }
    modes.put(topic, group, RequestMode(mode, body.path("popShareQueueNum").asInt()))
    call.answer(Response.ok)
  }
}
