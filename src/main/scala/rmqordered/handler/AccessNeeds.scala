package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode

import scala.jdk.CollectionConverters._

import rmqordered.auth.{Action, Need, Resource, ResourceKind}
import rmqordered.model.Names
import rmqordered.protocol.{RequestCode => Code}

/**
 * What each request needs of its user. What is not listed needs an administrator: a new request
 * code is closed until somebody says who may use it.
 */
object AccessNeeds {

  /**
   * @param topicAt
   *   the topic of the message at a place in the commit log, if there is one
   */
  def of(call: Call, topicAt: Long => Option[String]): Seq[Need] = call.command.code match {
    case Code.SendMessage => Seq(publish(call.text("topic")))
    case Code.SendMessageV2 | Code.SendBatchMessage => Seq(publish(call.text("b")))
    case Code.GetSendStream => Seq(publish(call.text("topic")))
    case Code.PullMessage | Code.LitePullMessage | Code.QueryConsumerOffset |
        Code.UpdateConsumerOffset | Code.PopMessage | Code.Notification | Code.PollingInfo =>
      Seq(Need.member(call.text("consumerGroup")), consume(call.text("topic")))
    case Code.AckMessage | Code.ChangeMessageInvisibleTime =>
      popped(call.text("consumerGroup"), call.text("topic"))
    case Code.BatchAckMessage => acked(call.jsonBody)
    case Code.QueryAssignment => Seq(Need.member(call.jsonBody.path("consumerGroup").asText()))
    case Code.QueryMessage => Seq(consume(call.text("topic")))
    // RocketMQ asks for the group only, and gives its members any message whose place they guess.
    case Code.ConsumerSendMsgBack =>
      Need.member(call.text("group")) +: topicAt(call.long("offset")).map(consume).toSeq
    case Code.HeartBeat => heartbeat(call.jsonBody)
    case Code.UnregisterClient => call.optional("consumerGroup").map(Need.member).toSeq
    case Code.LockBatchMq | Code.UnlockBatchMq => lock(call.jsonBody)
    case Code.CheckClientConfig => clientConfig(call.jsonBody)
    case Code.GetConsumerListByGroup | Code.GetConsumeStats | Code.GetConsumerConnectionList =>
      Seq(Need.member(call.text("consumerGroup")))
    case Code.GetQueueLeases | Code.GetPopState =>
      call.optional("consumerGroup").fold[Seq[Need]](Seq(Need.Admin))(group =>
        Seq(Need.member(group))
      )
    // Producers ask for the template when a topic does not exist yet.
    case Code.GetRouteInfoByTopic if call.text("topic") == Names.AutoCreateTopic => Nil
    case code if ofTopic.contains(code) => Seq(see(call.text("topic")))
    case Code.GetKvConfig | Code.GetKvListByNamespace => Seq(kv(call, Action.Sub))
    case Code.PutKvConfig | Code.DeleteKvConfig => Seq(kv(call, Action.Pub))
    // Where the broker is and what topics are called: clients ask before they know anything.
    case Code.GetBrokerClusterInfo | Code.GetAllTopicListFromNameServer | Code.GetTopicsByCluster =>
      Nil
    case _ => Seq(Need.Admin)
  }

  private val ofTopic = Set(
    Code.GetRouteInfoByTopic,
    Code.GetMaxOffset,
    Code.GetMinOffset,
    Code.SearchOffsetByTimestamp,
    Code.GetEarliestMsgStoreTime,
    Code.GetTopicStatsInfo,
    Code.GetTopicConfig,
    Code.QueryTopicConsumeByWho
  )

  /** A group's retry topic and dead letters belong to its members. */
  private def groupOf(topic: String): Option[String] =
    Names
      .groupOfRetryTopic(topic)
      .orElse(
        Option.when(topic.startsWith(Names.DlqPrefix))(topic.substring(Names.DlqPrefix.length))
      )

  private def publish(topic: String): Need = groupOf(topic).fold(Need.pub(topic))(Need.member)

  private def consume(topic: String): Need = groupOf(topic).fold(Need.sub(topic))(Need.member)

  /** What it takes to know a topic. */
  def see(topic: String): Need = groupOf(topic).fold(Need.either(topic))(Need.member)

  private def kv(call: Call, action: Action): Need =
    Need.On(Resource(ResourceKind.Kv, call.text("namespace")), Set(action))

  /**
   * Handles name the topic where the message lies: the group's retry topics for what it pops begin
   * with its name. A handle gives nothing to read, and changes nothing but the group's own pops.
   */
  private def popped(group: String, topic: String): Seq[Need] = {
    val isRetry = Names.isPopRetryOf(group, topic)
    Need.member(group) +: Option.unless(isRetry)(consume(topic)).toSeq
  }

  private def acked(body: JsonNode): Seq[Need] =
    body
      .path("acks")
      .elements()
      .asScala
      .flatMap(ack => popped(ack.path("c").asText(), ack.path("t").asText()))
      .toSeq
      .distinct

  /**
   * RocketMQ looks at the consumers of a heartbeat only. Producers are remembered like them, so
   * they need a right, too; one that every producer has, because Apache's producers name their
   * group in each heartbeat and are given rights to topics alone.
   */
  private def heartbeat(body: JsonNode): Seq[Need] =
    consumersOf(body) ++ body
      .path("producerDataSet")
      .elements()
      .asScala
      .map(_.path("groupName").asText())
      .filter(_ != Names.InnerProducerGroup)
      .map(Need.Producer)

  private def consumersOf(body: JsonNode): Seq[Need] =
    body
      .path("consumerDataSet")
      .elements()
      .asScala
      .flatMap { data =>
        val topics =
          data.path("subscriptionDataSet").elements().asScala.map(_.path("topic").asText())
        Need.member(data.path("groupName").asText()) +: topics.map(consume).toSeq
      }
      .toSeq

  private def lock(body: JsonNode): Seq[Need] =
    Need.member(body.path("consumerGroup").asText()) +:
      Bodies.messageQueues(body.path("mqSet")).map(queue => consume(queue.topic)).distinct

  private def clientConfig(body: JsonNode): Seq[Need] =
    Seq(
      Need.member(body.path("group").asText()),
      consume(body.path("subscriptionData").path("topic").asText())
    )
}
