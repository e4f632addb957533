package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode

import scala.jdk.CollectionConverters._

import rmqordered.group.{
  ConsumerGroups,
  MembershipChange,
  ProducerGroups,
  Registration,
  SubscriptionGroups
}
import rmqordered.model.{ClientIdentity, ConsumeMode, Names, Subscription}
import rmqordered.protocol.{ExtFields, RequestCode, ResponseCode}
import rmqordered.util.Json

/** Clients coming and going: heartbeats, memberships, and the news about them. */
final class ClientHandler(
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    producers: ProducerGroups[Connection],
    creation: TopicCreation,
    filters: Filters,
    calls: ClientCalls
) {

  /**
   *   34. A client of version 2 sends a fingerprint of its subscriptions; while that does not
   *       change it leaves them out, until it is told that the broker does not have them
   *       (`IS_SUB_CHANGE`).
   */
  def heartbeat(call: Call): Unit = {
    val body = call.jsonBody
    val clientId = body.path("clientID").asText()
    if (clientId.isBlank) throw Failures.invalid("The heartbeat's clientID is blank.")
    val identity = ClientIdentity(clientId, call.command.language, call.command.version)
    val fingerprint = body.path("heartbeatFingerprint").asInt()
    val keepsSubscriptions = fingerprint != 0 && body.path("withoutSub").asBoolean(false)
    val consumerData = body.path("consumerDataSet").elements().asScala.toSeq
    val wantsMore = consumerData.map { data =>
      registerConsumer(call.connection, identity, data, fingerprint, keepsSubscriptions)
    }
    body.path("producerDataSet").elements().asScala.foreach { data =>
      producers.register(call.connection, identity, data.path("groupName").asText())
    }
    val isSubChange = fingerprint == 0 || wantsMore.contains(true)
    call.answer(
      Response.fields(
        "IS_SUPPORT_HEART_BEAT_V2" -> "true",
        "IS_SUB_CHANGE" -> isSubChange.toString
      )
    )
  }

  /** True when the group's subscriptions are to be sent again. */
  private def registerConsumer(
      connection: Connection,
      identity: ClientIdentity,
      data: JsonNode,
      fingerprint: Int,
      keepsSubscriptions: Boolean
  ): Boolean = {
    val group = data.path("groupName").asText()
    // As in RocketMQ, a group that may not exist is passed over without an error.
    if (Names.groupProblem(group).nonEmpty) false
    else
      groups.getOrCreate(group).fold(false) { config =>
        creation.retryTopic(group, config.retryQueueNums)
        val registration = Registration(
          group,
          modeOf(data),
          Option.unless(keepsSubscriptions)(subscriptionsOf(data)),
          fingerprint
        )
        val isKnown = consumers.hasFingerprint(group, fingerprint)
        val change = consumers.register(connection, identity, registration)
        if (config.notifyConsumerIdsChangedEnable) change.foreach(tellMembers)
        !isKnown
      }
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
      consumers.unregister(call.connection, group).filter(_ => isNotified).foreach(tellMembers)
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
    val subscription = Bodies.subscription(call.jsonBody.path("subscriptionData"))
    filters.of(subscription)
    call.answer(Response.ok)
  }

  /** A connection is gone. */
  def disconnected(connection: Connection): Unit = {
    producers.disconnect(connection)
    consumers.disconnect(connection).foreach(tellMembers)
  }

  /** Connections without a heartbeat for too long are closed, which makes their clients leave. */
  def closeExpired(): Unit = consumers.expired().foreach(_.close())

  /** 40 to every member, the newcomer included: otherwise its first rebalance waits 20 s. */
  private def tellMembers(change: MembershipChange[Connection]): Unit =
    if (!change.mode.isBroadcasting)
      change.members.foreach { member =>
        calls.tell(
          member,
          RequestCode.NotifyConsumerIdsChanged,
          ExtFields("consumerGroup" -> change.group)
        )
      }
}
