package rmqordered.handler

import org.slf4j.LoggerFactory

import scala.collection.immutable.VectorMap

import rmqordered.group.SubscriptionGroups
import rmqordered.lease.QueueLockManager
import rmqordered.model.{Names, QueueKey, TopicConfig}
import rmqordered.protocol.{
  BatchCodec,
  MessageId,
  MessageProperties,
  RecordContent,
  RecordEnvelope,
  Slice
}
import rmqordered.schedule.{DelayPlanner, Refitting}
import rmqordered.store.{AppendOutcome, MessageStore, StampedOutcome}

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
    delays: DelayPlanner,
    writes: WriteFence,
    settings: SendSettings
) {
  import SendHandler._

  /** 10 and 310. */
  def send(call: Call): Unit = {
    val request = SendRequest.of(call)
    val topic = checkedTopic(request)
    Stamps.ensureNone(request)
    val body = call.command.body.toSlice
    if (body.isEmpty) throw Failures.illegalMessage("The message has no body.")
    ensureSize(body.length)
    val received = MessageProperties.decode(request.properties)
    ensureNoTransaction(request, received)
    val target = QueueKey(topic.name, queueId(request, topic))
    val actual =
      Names.groupOfRetryTopic(request.topic).fold(target)(retryTarget(call, request, target, _))
    val properties = completed(received, actual != target)
    val placed = delays
      .place(actual, properties)
      .fold(problem => throw Failures.illegalMessage(s"the message is illegal: $problem"), identity)
    // A dead letter has nowhere else to go: it does without what the broker would add.
    val lesser = if (actual == target) None else Refitting.fitting(received)
    val encoded = Refitting.fitting(placed.properties).orElse(lesser)
    val content = new RecordContent(
      request.flag,
      body,
      encoded.getOrElse(throw Failures.propertiesTooLong(placed.properties))
    )
    val uniqueKey = properties.get(MessageProperties.UniqueKey)
    val stored = envelope(call, request, placed.queue)
    append(Sent(call, request, stored, target.queueId, uniqueKey), Vector(content))
  }

  /** 320. Records keep the properties they came with, as in RocketMQ 5.5. */
  def sendBatch(call: Call): Unit = {
    val request = SendRequest.of(call)
    val topic = checkedTopic(request)
    if (request.topic.startsWith(Names.RetryPrefix))
      throw Failures.illegalMessage(s"batch request does not support retry group ${request.topic}")
    val received = MessageProperties.decode(request.properties)
    ensureNoTransaction(request, received)
    if (isDelayed(received)) throw Failures.illegalMessage("A batch of messages cannot be delayed.")
    val body = Stamps.batchBody(request, call.command.body.toSlice)
    val contents = BatchCodec.decode(body.records)
    // One message with a stamp of its own is no larger than one sent by itself.
    val isSingle = request.stamp.isDefined && contents.length == 1
    ensureSize(if (isSingle) contents.head.body.length else body.records.length)
    val target = QueueKey(topic.name, queueId(request, topic))
    val uniqueKey = received.get(MessageProperties.UniqueKey)
    val stored = envelope(call, request, target)
    append(Sent(call, request, stored, target.queueId, uniqueKey), contents, body.digests)
  }

  private def append(
      sent: Sent,
      contents: Vector[RecordContent],
      digests: Slice = Slice.empty
  ): Unit = {
    val stamped = Stamps.of(sent.request, sent.envelope.topic, contents, digests)
    writes.ifWriting(sent.call) {
      stamped match {
        case None => store.append(sent.envelope, contents)(answer(sent))
        case Some(stamps) =>
          store.appendStamped(sent.envelope, contents, stamps)(answerStamped(sent))
      }
    }
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
        s"request queueId[${request.queueId}] is illegal, topic[${topic.name}] has " +
          s"${topic.queueNums} queues"
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

  /** As a RocketMQ broker that rejects transactions. */
  private def ensureNoTransaction(request: SendRequest, properties: Map[String, String]): Unit = {
    val isTransaction = (request.sysFlag & TransactionBits) != 0 ||
      properties.get(MessageProperties.TransactionPrepared).exists(_.equalsIgnoreCase("true"))
    if (isTransaction)
      throw Failures.noPermission(
        s"the broker[${settings.identity.brokerName}] sending transaction message is forbidden: " +
          "transactions are not supported"
      )
  }

  private def isDelayed(properties: Map[String, String]): Boolean =
    delayProperties.exists(properties.contains) ||
      properties.get(MessageProperties.Delay).flatMap(_.toIntOption).exists(_ > 0)

  /**
   * A message given back by its consumer. An orderly consumer (its group holds a queue) has given
   * up on it, and so has one that tried too often: it goes to the dead letters.
   */
  private def retryTarget(
      call: Call,
      request: SendRequest,
      target: QueueKey,
      group: String
  ): QueueKey = {
    val config = groups.getOrCreate(group).getOrElse(throw Failures.groupNotExist(group))
    val maxTimes = request.maxReconsumeTimes
      .filter(_ => call.command.version >= VersionWithMaxReconsumeTimes)
      .getOrElse(config.retryMaxTimes)
    if (locks.hasLiveLease(group) || request.reconsumeTimes > maxTimes) {
      val dlq = QueueKey(creation.dlqTopic(group).name, 0)
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

  private def envelope(call: Call, request: SendRequest, target: QueueKey): RecordEnvelope =
    RecordEnvelope(
      topic = target.topic,
      queueId = target.queueId,
      sysFlag = request.sysFlag,
      bornTimestamp = request.bornTimestamp,
      bornHost = call.connection.remote,
      storeHost = settings.identity.storeHost,
      reconsumeTimes = request.reconsumeTimes
    )

  private def answer(sent: Sent)(outcome: AppendOutcome): Unit = outcome match {
    case AppendOutcome.Stored(queueOffset, commitLogOffsets) =>
      val named = if (sent.request.isBrief) commitLogOffsets.take(1) else commitLogOffsets
      val ids = MessageId.offsetMessageIds(settings.identity.storeHost, named)
      val fields = receipt(sent, queueOffset, Iterator.single(ids))
      sent.call.answer(Response.fields(fields: _*))
    case refused: AppendOutcome.Impossible => sent.call.fail(Failures.impossible(refused))
    case AppendOutcome.Unavailable(reason) => sent.call.fail(Failures.unavailable(reason))
  }

  private def answerStamped(sent: Sent)(outcome: StampedOutcome): Unit = outcome match {
    case landed: StampedOutcome.Landed =>
      val ids = landed.commitLogOffsets.map(_.fold("")(messageId))
      val fields = receipt(sent, landed.queueOffset.getOrElse(Stamps.UnknownOffset), ids)
      sent.call.answer(Response.fields(fields ++ Stamps.receipt(landed): _*))
    case StampedOutcome.Refused(verdict) => sent.call.fail(Stamps.refusal(verdict))
    case StampedOutcome.Failed(failure) => answer(sent)(failure)
  }

  /** What Java's client reads; it needs the first three. */
  private def receipt(
      sent: Sent,
      queueOffset: Long,
      ids: Iterator[String]
  ): Seq[(String, String)] =
    Seq(
      "msgId" -> (if (sent.request.isBrief) ids.next() else ids.mkString(",")),
      "queueId" -> sent.queueId.toString,
      "queueOffset" -> queueOffset.toString
    ) ++ sent.uniqueKey.map("transactionId" -> _) ++ Seq(
      MessageProperties.MsgRegion -> Names.DefaultRegion,
      MessageProperties.TraceOn -> "true"
    )

  private def messageId(commitLogOffset: Long): String =
    MessageId.offsetMessageId(settings.identity.storeHost, commitLogOffset)
}

object SendHandler {
  private val logger = LoggerFactory.getLogger(classOf[SendHandler])

  private val TransactionBits = 0xc

  // RocketMQ V3_4_9: older clients send a maxReconsumeTimes that means nothing.
  val VersionWithMaxReconsumeTimes = 121

  private val delayProperties = Seq(
    MessageProperties.TimerDeliverMs,
    MessageProperties.TimerDelaySec,
    MessageProperties.TimerDelayMs
  )

  /** A send on its way to the store; `queueId` is the one the client hears of. */
  private final case class Sent(
      call: Call,
      request: SendRequest,
      envelope: RecordEnvelope,
      queueId: Int,
      uniqueKey: Option[String]
  )
}
