package rmqordered.handler

import java.util.concurrent.atomic.AtomicInteger

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
import rmqordered.protocol.{ExtFields, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.Json

/** Clients coming and going: heartbeats, memberships, and the news about them. */
final class ClientHandler(
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    producers: ProducerGroups[Connection],
    creation: TopicCreation
) {
  private val opaques = new AtomicInteger()

  /** 34. */
  def heartbeat(call: Call): Unit = {
    val body = call.jsonBody
    val clientId = body.path("clientID").asText()
    if (clientId.isBlank) throw Failures.invalid("The heartbeat's clientID is blank.")
    val identity = ClientIdentity(clientId, call.command.language, call.command.version)
    val keepsSubscriptions = body.path("withoutSub").asBoolean(false)
    body.path("consumerDataSet").elements().asScala.foreach { data =>
      registerConsumer(call.connection, identity, data, keepsSubscriptions)
    }
    body.path("producerDataSet").elements().asScala.foreach { data =>
      producers.register(call.connection, identity, data.path("groupName").asText())
    }
    // Version 2 clients send their subscriptions again when told that these may have changed.
    call.answer(Response.fields("IS_SUPPORT_HEART_BEAT_V2" -> "true", "IS_SUB_CHANGE" -> "true"))
  }

  private def registerConsumer(
      connection: Connection,
      identity: ClientIdentity,
      data: JsonNode,
      keepsSubscriptions: Boolean
  ): Unit = {
    val group = data.path("groupName").asText()
    // As in RocketMQ, a group that may not exist is passed over without an error.
    if (Names.groupProblem(group).isEmpty)
      groups.getOrCreate(group).foreach { config =>
        creation.retryTopic(group, config.retryQueueNums)
        val registration = Registration(
          group,
          modeOf(data),
          Option.unless(keepsSubscriptions)(subscriptionsOf(data))
        )
        val change = consumers.register(connection, identity, registration)
        if (config.notifyConsumerIdsChangedEnable) change.foreach(tellMembers)
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
      consumers.unregister(call.connection, group).foreach(tellMembers)
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
    if (!subscription.isTagType)
      throw new Refusal(
        ResponseCode.SystemError,
        s"The broker does not support consumer to filter message by ${subscription.expressionType}"
      )
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
        member.send(
          RemotingCommand.oneWayRequest(
            opaques.getAndIncrement(),
            RequestCode.NotifyConsumerIdsChanged,
            ExtFields("consumerGroup" -> change.group)
          )
        )
      }
}
