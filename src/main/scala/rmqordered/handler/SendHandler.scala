package rmqordered.handler

import java.nio.charset.StandardCharsets.UTF_8

import org.slf4j.LoggerFactory

import scala.collection.immutable.VectorMap

import rmqordered.group.SubscriptionGroups
import rmqordered.lease.QueueLockManager
import rmqordered.model.{Names, TopicConfig}
import rmqordered.protocol.{
  BatchCodec,
  MessageId,
  MessageProperties,
  RecordContent,
  RecordEnvelope,
  Slice,
  StoredRecord
}
import rmqordered.store.{AppendOutcome, MessageStore}

/** What a send needs of the broker around it. */
final case class SendSettings(
    identity: BrokerIdentity,
    maxMessageSize: Int,
    pickQueue: Int => Int,
    uniqueKeys: UniqueKeys
)

/**
 * Sends: one message (10, 310) or a batch (320) into one queue. The order of the checks and the
 * properties added are those of RocketMQ 5.5's SendMessageProcessor.
 */
final class SendHandler(
    store: MessageStore,
    creation: TopicCreation,
    groups: SubscriptionGroups,
    locks: QueueLockManager,
    settings: SendSettings
) {
  import SendHandler._

  /** 10 and 310. */
  def send(call: Call): Unit = {
    val request = SendRequest.of(call)
    val topic = checkedTopic(request)
    val body = call.command.body.toArray
    if (body.isEmpty) throw Failures.illegalMessage("The message has no body.")
    ensureSize(body.length)
    val received = MessageProperties.decode(request.properties)
    ensureServed(request, received)
    val target = Target(topic.name, queueId(request, topic))
    val actual =
      Names.groupOfRetryTopic(request.topic).fold(target)(retryTarget(call, request, target, _))
    val properties = completed(received, actual.topic != target.topic)
    val encoded = encodedProperties(properties)
    val content = new RecordContent(request.flag, Slice(body), Slice(encoded))
    val uniqueKey = properties.get(MessageProperties.UniqueKey)
    store.append(
      envelope(call, request, actual),
      Vector(content)
    )(answer(call, target.queueId, uniqueKey))
  }

  /** 320. Records keep the properties they came with, as in RocketMQ 5.5. */
  def sendBatch(call: Call): Unit = {
    val request = SendRequest.of(call)
    val topic = checkedTopic(request)
    if (request.topic.startsWith(Names.RetryPrefix))
      throw Failures.illegalMessage(s"batch request does not support retry group ${request.topic}")
    val received = MessageProperties.decode(request.properties)
    ensureServed(request, received)
    val body = call.command.body.toArray
    ensureSize(body.length)
    val contents = BatchCodec.decode(body)
    val target = Target(topic.name, queueId(request, topic))
    val uniqueKey = received.get(MessageProperties.UniqueKey)
    store.append(envelope(call, request, target), contents)(answer(call, target.queueId, uniqueKey))
  }

  private def checkedTopic(request: SendRequest): TopicConfig = {
    Names.topicProblem(request.topic).foreach(problem => throw Failures.invalid(problem))
    if (Names.isSendForbidden(request.topic))
      throw Failures.noPermission(s"Sending message to topic[${request.topic}] is forbidden.")
    val topic = store.topics
      .get(request.topic)
      .orElse(creation.onSend(request.topic, request.defaultTopic, request.defaultTopicQueueNums))
      .orElse(Names.groupOfRetryTopic(request.topic).map(creation.retryTopic(_, 1)))
      .getOrElse(throw Failures.topicNotExist(request.topic))
    if (request.queueId >= topic.queueNums)
      throw Failures.invalid(
        s"request queueId[${request.queueId}] is illegal, topic[${topic.name}] has ${topic.queueNums} queues"
      )
    topic
  }

  private def queueId(request: SendRequest, topic: TopicConfig): Int =
    if (request.queueId >= 0) request.queueId
    else if (topic.writeQueueNums > 0) settings.pickQueue(topic.writeQueueNums)
    else throw Failures.invalid(s"topic[${topic.name}] has no write queue")

  private def ensureSize(bytes: Int): Unit =
    if (bytes > settings.maxMessageSize)
      throw Failures.illegalMessage(
        s"the message is illegal: $bytes bytes, at most ${settings.maxMessageSize} allowed"
      )

  /** Delays and transactions are not served yet; storing such a message at once would be a lie. */
  private def ensureServed(request: SendRequest, properties: Map[String, String]): Unit = {
    val isTransaction = (request.sysFlag & TransactionBits) != 0 ||
      properties.get(MessageProperties.TransactionPrepared).exists(_.equalsIgnoreCase("true"))
    if (isTransaction)
      throw Failures.illegalMessage("Transactional messages are not supported yet.")
    // Consumers put a delay on what they give back; without delays it merely comes back sooner.
    val isRetry = request.topic.startsWith(Names.RetryPrefix)
    val isDelayed = delayProperties.exists(properties.contains) ||
      properties.get(MessageProperties.Delay).flatMap(_.toIntOption).exists(_ > 0)
    if (isDelayed && !isRetry)
      throw Failures.illegalMessage("Delayed messages are not supported yet.")
  }

  /**
   * A message given back by its consumer. An orderly consumer (its group holds a queue) has given
   * up on it, and so has one that tried too often: it goes to the dead letters.
   */
  private def retryTarget(
      call: Call,
      request: SendRequest,
      target: Target,
      group: String
  ): Target = {
    val config = groups.getOrCreate(group).getOrElse(throw Failures.groupNotExist(group))
    val maxTimes = request.maxReconsumeTimes
      .filter(_ => call.command.version >= VersionWithMaxReconsumeTimes)
      .getOrElse(config.retryMaxTimes)
    if (locks.hasLiveLease(group) || request.reconsumeTimes > maxTimes) {
      val dlq = Target(creation.dlqTopic(group).name, 0)
      logger.info("message goes to the dead letters topic={} group={}", request.topic, group)
      dlq
    } else target
  }

  private def completed(
      received: VectorMap[String, String],
      isDeadLetter: Boolean
  ): VectorMap[String, String] = {
    val base = received.removed(MessageProperties.PopCheckpoint)
    val withKey =
      if (base.contains(MessageProperties.UniqueKey)) base
      else base.updated(MessageProperties.UniqueKey, settings.uniqueKeys.next())
    val withBroker = withKey
      .updated(MessageProperties.MsgRegion, Names.DefaultRegion)
      .updated(MessageProperties.TraceOn, "true")
      .updated(MessageProperties.Cluster, settings.identity.clusterName)
    // As RocketMQ marks a dead letter, which is not to be delayed.
    if (isDeadLetter) withBroker.updated(MessageProperties.Delay, "-1") else withBroker
  }

  private def encodedProperties(properties: VectorMap[String, String]): Array[Byte] = {
    val encoded = MessageProperties.encode(properties).getBytes(UTF_8)
    if (encoded.length > StoredRecord.MaxPropertiesBytes)
      throw Failures.illegalMessage(
        s"the message is illegal: ${encoded.length} bytes of properties, at most ${StoredRecord.MaxPropertiesBytes} allowed"
      )
    encoded
  }

  private def envelope(call: Call, request: SendRequest, target: Target): RecordEnvelope =
    RecordEnvelope(
      topic = target.topic,
      queueId = target.queueId,
      sysFlag = request.sysFlag,
      bornTimestamp = request.bornTimestamp,
      bornHost = call.connection.remote,
      storeHost = settings.identity.storeHost,
      reconsumeTimes = request.reconsumeTimes
    )

  private def answer(call: Call, queueId: Int, uniqueKey: Option[String])(
      outcome: AppendOutcome
  ): Unit = outcome match {
    case AppendOutcome.Stored(queueOffset, commitLogOffsets) =>
      val ids = commitLogOffsets.map(MessageId.offsetMessageId(settings.identity.storeHost, _))
      val fields = Seq(
        "msgId" -> ids.mkString(","),
        "queueId" -> queueId.toString,
        "queueOffset" -> queueOffset.toString
      ) ++ uniqueKey.map("transactionId" -> _) ++ Seq(
        MessageProperties.MsgRegion -> Names.DefaultRegion,
        MessageProperties.TraceOn -> "true"
      )
      call.answer(Response.fields(fields: _*))
    case AppendOutcome.TooLarge(bytes, limit) =>
      call.fail(Failures.illegalMessage(
        s"the message is illegal: $bytes bytes stored, at most $limit allowed"
      ))
    case AppendOutcome.Unavailable(reason) => call.fail(Failures.unavailable(reason))
  }
}

object SendHandler {
  private val logger = LoggerFactory.getLogger(classOf[SendHandler])

  private val TransactionBits = 0xc

  // RocketMQ V3_4_9: older clients send a maxReconsumeTimes that means nothing.
  private val VersionWithMaxReconsumeTimes = 121

  private val delayProperties = Seq(
    MessageProperties.TimerDeliverMs,
    MessageProperties.TimerDelaySec,
    MessageProperties.TimerDelayMs
  )

  /** Where a message is stored, which for a dead letter is not where it was sent. */
  private final case class Target(topic: String, queueId: Int)
}
