package rmqordered.handler

import java.io.IOException

import com.fasterxml.jackson.databind.JsonNode
import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.config.LimitSettings
import rmqordered.group.{
  ConsumerGroups,
  ProducerGroups,
  Registration,
  SubscriptionGroups
}
import rmqordered.model.{
  ClientIdentity,
  ConsumeMode,
  Names,
  Subscription,
  SubscriptionGroupConfig
}
import rmqordered.protocol.ResponseCode
import rmqordered.util.{Json, TableFull}

/** Clients coming and going: heartbeats, memberships, and the news about them. */
final class ClientHandler(
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    producers: ProducerGroups[Connection],
    creation: TopicCreation,
    filters: Filters,
    news: GroupNews,
    limits: LimitSettings
) {
  import ClientHandler._

  /**
   *   34. A client of version 2 sends a fingerprint of its subscriptions; while that does not
   *       change it leaves them out, until it is told that the broker does not have them
   *       (`IS_SUB_CHANGE`).
   */
  def heartbeat(call: Call): Unit = {
    val body = call.jsonBody
    val clientId = body.path("clientID").asText()
    if (clientId.isBlank) throw Failures.invalid("The heartbeat's clientID is blank.")
    Failures.ensureNone(Names.textProblem("clientID", clientId))
    ensureFew(body)
    val identity = ClientIdentity(clientId, call.command.language, call.command.version)
    val fingerprint = body.path("heartbeatFingerprint").asInt()
    val keepsSubscriptions = fingerprint != 0 && body.path("withoutSub").asBoolean(false)
    val producerGroups =
      body.path("producerDataSet").elements().asScala.map(_.path("groupName").asText()).toSeq
    Failures.ensureNone(producerGroups.flatMap(Names.textProblem("producer group", _)))
    body.path("consumerDataSet").elements().asScala.foreach { data =>
      ensureSameMember(call.connection, clientId, data)
      ensureShort(data)
    }
    val consuming = consumerGroups(body)
    createRetryTopics(consuming.map(_._2))
    val wantsMore = consuming.map { case (data, config) =>
      val known = if (keepsSubscriptions) None else Some(subscriptionsOf(data))
      val registration = Registration(config.name, modeOf(data), known, fingerprint)
      registerConsumer(call, identity, config, registration)
    }
    producerGroups.foreach(producers.register(call.connection, identity, _, call.user))
    val isSubChange = fingerprint == 0 || wantsMore.contains(true)
    call.answer(
      Response.fields(
        "IS_SUPPORT_HEART_BEAT_V2" -> "true",
        "IS_SUB_CHANGE" -> isSubChange.toString
      )
    )
  }

  private def ensureFew(body: JsonNode): Unit = {
    val named = body.path("consumerDataSet").size() + body.path("producerDataSet").size()
    if (named > limits.groupsPerHeartbeat)
      throw Failures.tooMany("groups", named, limits.groupsPerHeartbeat)
  }

  /** As in RocketMQ, a group that may not exist is passed over without an error. */
  private def consumerGroups(body: JsonNode): Seq[(JsonNode, SubscriptionGroupConfig)] =
    for {
      data <- body.path("consumerDataSet").elements().asScala.toSeq
      group = data.path("groupName").asText()
      if Names.groupProblem(group).isEmpty
      config <- groups.getOrCreate(group)
    } yield data -> config

  /**
   * One write, however many groups are new. Who only reads need not have a retry topic: it is left
   * out on a full disk, until a later heartbeat or the first message that is given back.
   */
  private def createRetryTopics(configs: Seq[SubscriptionGroupConfig]): Unit =
    try creation.retryTopics(configs)
    catch {
      case error @ (_: IOException | _: TableFull) =>
        logger.warn("retry topics of {} groups could not be written: {}", configs.size, error)
    }

  /** Each new member makes all others look at the group again, so a connection is one of them. */
  private def ensureSameMember(connection: Connection, clientId: String, data: JsonNode): Unit = {
    val group = data.path("groupName").asText()
    consumers.memberOn(connection, group).filter(_ != clientId).foreach { known =>
      throw Failures.invalid(
        s"This connection is the member '$known' of group $group; '$clientId' needs another one."
      )
    }
  }

  /** What is remembered of a consumer is as short as names are, but for what it subscribes to. */
  private def ensureShort(data: JsonNode): Unit = {
    val subscriptions = subscriptionsOf(data)
    val modes = Seq("consumeType", "messageModel", "consumeFromWhere")
    Failures.ensureNone(
      modes.flatMap(field => Names.textProblem(field, data.path(field).asText())) ++
        subscriptions.flatMap(one => Names.textProblem("topic", one.topic)) ++
        subscriptions.flatMap(one => Names.textProblem("expressionType", one.expressionType))
    )
    val chars =
      subscriptions.iterator.map(one => one.expression.length + one.tags.map(_.length).sum)
    if (chars.sum > limits.subscriptionChars)
      throw Failures.invalid(
        s"The subscriptions of a group may have ${limits.subscriptionChars} characters in all."
      )
  }

  /** True when the group's subscriptions are to be sent again. */
  private def registerConsumer(
      call: Call,
      identity: ClientIdentity,
      config: SubscriptionGroupConfig,
      registration: Registration
  ): Boolean = {
    val isKnown = consumers.hasFingerprint(config.name, registration.fingerprint)
    val change = consumers.register(call.connection, identity, registration, call.user)
    if (config.notifyConsumerIdsChangedEnable) change.foreach(_ => news.changed(config.name))
    !isKnown
  }

  private def modeOf(data: JsonNode): ConsumeMode = ConsumeMode(
    data.path("consumeType").asText("CONSUME_PASSIVELY"),
    data.path("messageModel").asText(ConsumeMode.Clustering),
    data.path("consumeFromWhere").asText("CONSUME_FROM_LAST_OFFSET")
  )

  private def subscriptionsOf(data: JsonNode): Seq[Subscription] =
    data.path("subscriptionDataSet").elements().asScala.map(Bodies.subscription).toSeq

  /** 35. */
  def unregister(call: Call): Unit = {
    call.optional("producerGroup").foreach(producers.unregister(call.connection, _))
    call.optional("consumerGroup").foreach { group =>
      val isNotified = groups.get(group).forall(_.notifyConsumerIdsChangedEnable)
      consumers.unregister(call.connection, group).filter(_ => isNotified).foreach(_ =>
        news.changed(group)
      )
    }
    call.answer(Response.ok)
  }

  /** 38. One id per connection, repeated ids included, as RocketMQ lists them. */
  def consumerIds(call: Call): Unit = {
    val group = call.text("consumerGroup")
    val members = consumers.view(group).fold(Seq.empty[String])(_.members.map(_.identity.clientId))
    if (members.isEmpty)
      throw new Refusal(ResponseCode.SystemError, s"no consumer for this group, $group")
    val root = Json.obj()
    root.set[JsonNode]("consumerIdList", Json.texts(members))
    call.answer(Response.json(root))
  }

  /** 46. Clients ask before they subscribe with anything but tags. */
  def checkClientConfig(call: Call): Unit = {
    val subscription = Bodies.subscription(call.jsonBody(MaxCheckBytes).path("subscriptionData"))
    filters.of(subscription)
    call.answer(Response.ok)
  }

  /** A connection is gone. */
  def disconnected(connection: Connection): Unit = {
    producers.disconnect(connection)
    news.disconnect(connection)
    consumers.disconnect(connection).foreach(change => news.changed(change.group))
  }

  /** Connections without a heartbeat for too long are closed, which makes their clients leave. */
  def closeExpired(): Unit = consumers.expired().foreach(_.close())
}

object ClientHandler {
  private val logger = LoggerFactory.getLogger(classOf[ClientHandler])

  // One subscription, whose expression has its own limit.
  private val MaxCheckBytes = 256 * 1024
}
