package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import scala.jdk.CollectionConverters._

import rmqordered.group.{ConsumerGroups, ProducerGroups, SubscriptionGroups}
import rmqordered.model.{ClientIdentity, Names, QueueKey}
import rmqordered.offset.{ConsumerOffsets, OffsetKey}
import rmqordered.protocol.ResponseCode
import rmqordered.stats.Traffic
import rmqordered.store.MessageStore
import rmqordered.util.{Json, WorkTurns}

/** The tables that say what groups exist and how far they are. */
final case class GroupTables(
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    producers: ProducerGroups[Connection],
    offsets: ConsumerOffsets,
    store: MessageStore,
    traffic: Traffic
)

/** Administration of groups. */
final class GroupHandler(
    tables: GroupTables,
    identity: BrokerIdentity,
    onDeleted: String => Unit,
    onCleaned: String => Unit,
    turns: WorkTurns
) {
  import tables._

  /** 200. */
  def updateOrCreate(call: Call): Unit = {
    val config = SubscriptionGroups.decode(call.jsonBody)
    Names.groupProblem(config.name).foreach(problem => throw Failures.invalid(problem))
    groups.put(config)
    call.answer(Response.ok)
  }

  /** 225. All or none. */
  def updateOrCreateAll(call: Call): Unit = {
    val configs = call.jsonBody
      .path("groupConfigList")
      .elements()
      .asScala
      .map(SubscriptionGroups.decode)
      .toSeq
    configs.flatMap(config => Names.groupProblem(config.name)).headOption.foreach { problem =>
      throw Failures.invalid(problem)
    }
    groups.put(configs: _*)
    call.answer(Response.ok)
  }

  /** 352. */
  def get(call: Call): Unit = {
    val group = call.text("group")
    val config = groups.get(group).getOrElse(throw Failures.groupNotExist(group))
    call.answer(Response.json(SubscriptionGroups.encode(config)))
  }

  /** 201. */
  def getAll(call: Call): Unit = {
    val root = Json.obj()
    root.set[JsonNode]("dataVersion", Bodies.dataVersion())
    root.putObject("forbiddenTable")
    val table = root.putObject("subscriptionGroupTable")
    groups.all.foreach(group => table.set[JsonNode](group.name, SubscriptionGroups.encode(group)))
    call.answer(Response.json(root))
  }

  /** 207. */
  def delete(call: Call): Unit = {
    val group = call.text("groupName")
    groups.delete(group)
    onDeleted(group)
    if (call.optionalFlag("cleanOffset").getOrElse(false)) {
      offsets.removeGroup(group)
      onCleaned(group)
    }
    call.answer(Response.ok)
  }

  /** 208. */
  def consumeStats(call: Call): Unit = {
    val group = call.text("consumerGroup")
    val topics = statsTopics(call, group)
    val keys = for {
      name <- topics.iterator
      topic <- store.topics.get(name).iterator
      queueId <- (0 until topic.readQueueNums).iterator
    } yield QueueKey(name, queueId)
    call.inTurns(turns, keys) { key =>
      Bodies.queueEntry(identity.messageQueue(key), queueStats(group, key))
    } { entries =>
      val rest = Json.obj().put("consumeTps", topics.map(traffic.gotRate(group, _)).sum)
      call.answer(Bodies.queueTable("offsetTable", entries, rest))
    }
  }

  /**
   * As AdminBrokerProcessor: topics the live group does not subscribe to are left out, and those
   * that the one who asks may not see, named or not.
   */
  private def statsTopics(call: Call, group: String): Seq[String] = {
    val listed =
      call.optional("topicList").fold(Seq.empty[String])(_.split(';').toSeq.filter(_.nonEmpty))
    if (listed.nonEmpty) listed.distinct.filter(call.maySee)
    else {
      val candidates = call.optional("topic").fold(offsets.topicsOf(group))(Set(_))
      val subscribed = consumers.view(group).fold(Set.empty[String])(_.subscriptions.keySet)
      val found = if (subscribed.isEmpty) candidates else candidates.intersect(subscribed)
      found.filter(name => call.maySee(name) || isOwnRetry(call, group, name)).toSeq.sorted
    }
  }

  /** What the group popped in vain comes again in topics that nobody gives rights to. */
  private def isOwnRetry(call: Call, group: String, topic: String): Boolean =
    call.optional("topic").isEmpty && Names.isPopRetryOf(group, topic)

  private def queueStats(group: String, key: QueueKey): ObjectNode = {
    val committed = offsets.get(OffsetKey(group, key)).getOrElse(0L)
    Json
      .obj()
      .put("brokerOffset", store.maxOffset(key))
      .put("consumerOffset", committed)
      .put("lastTimestamp", store.storeTimestamp(key, committed - 1).getOrElse(0L))
      .put("pullOffset", committed)
  }

  /** 203. */
  def consumerConnections(call: Call): Unit = {
    val group = call.text("consumerGroup")
    val view = consumers
      .view(group)
      .getOrElse(
        throw new Refusal(ResponseCode.ConsumerNotOnline, s"the consumer group[$group] not online")
      )
    val root = Json
      .obj()
      .put("consumeFromWhere", view.mode.consumeFromWhere)
      .put("consumeType", view.mode.consumeType)
      .put("messageModel", view.mode.messageModel)
    val connections = root.putArray("connectionSet")
    view.members.foreach(member => connections.add(connection(member.channel, member.identity)))
    val subscriptions = root.putObject("subscriptionTable")
    view.subscriptions.values.filter(found => call.maySee(found.topic)).foreach { subscription =>
      subscriptions.set[JsonNode](subscription.topic, Bodies.subscription(subscription))
    }
    call.answer(Response.json(root))
  }

  /** 204. */
  def producerConnections(call: Call): Unit = {
    val group = call.text("producerGroup")
    val members = producers.members(group)
    if (members.isEmpty)
      throw new Refusal(ResponseCode.SystemError, s"the producer group[$group] not exist")
    val root = Json.obj()
    val connections = root.putArray("connectionSet")
    members.foreach { case (channel, client) => connections.add(connection(channel, client)) }
    call.answer(Response.json(root))
  }

  private def connection(channel: Connection, client: ClientIdentity): ObjectNode =
    Json
      .obj()
      .put("clientAddr", channel.remote.toString)
      .put("clientId", client.clientId)
      .put("language", client.language)
      .put("version", client.version)

  /** 300. */
  def consumersOfTopic(call: Call): Unit = {
    val topic = call.text("topic")
    val found = consumers.groupsOf(topic) ++ offsets.groupsOf(topic)
    val root = Json.obj()
    root.set[JsonNode]("groupList", Json.texts(found.toSeq.sorted))
    call.answer(Response.json(root))
  }

  /** 343. */
  def topicsOfConsumer(call: Call): Unit = {
    val root = Json.obj().put("brokerAddr", identity.address)
    root.set[JsonNode]("topicList", Json.texts(offsets.topicsOf(call.text("group")).toSeq.sorted))
    call.answer(Response.json(root))
  }

  /** 345. Without a live subscription the answer has none, as in RocketMQ. */
  def subscriptionOfConsumer(call: Call): Unit = {
    val (group, topic) = (call.text("group"), call.text("topic"))
    val root = Json.obj().put("group", group).put("topic", topic)
    consumers.subscription(group, topic).foreach { subscription =>
      root.set[JsonNode]("subscriptionData", Bodies.subscription(subscription))
    }
    call.answer(Response.json(root))
  }
}
