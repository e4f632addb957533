package rmqordered.handler

import org.slf4j.LoggerFactory

import scala.collection.immutable.VectorMap

import rmqordered.group.SubscriptionGroups
import rmqordered.model.{QueueKey, SubscriptionGroupConfig}
import rmqordered.protocol.{
  DecodedRecord,
  MessageId,
  MessageProperties,
  RecordContent,
  ResponseCode
}
import rmqordered.schedule.{DelayPlanner, Redelivery, Refitting}
import rmqordered.store.{AppendOutcome, MessageStore}

/**
 * Messages that a concurrent consumer could not process and gives back (36). The message is stored
 * again, in the group's retry topic after a growing delay, or among its dead letters.
 */
final class RetryHandler(
    store: MessageStore,
    creation: TopicCreation,
    groups: SubscriptionGroups,
    delays: DelayPlanner,
    settings: SendSettings
) {
  import RetryHandler._

  /** 36. */
  def sendBack(call: Call): Unit = {
    val group = call.text("group")
    val config = groups.getOrCreate(group).getOrElse(throw Failures.groupNotExist(group))
    // As in RocketMQ: a group without retry queues wants no second try.
    if (config.retryQueueNums <= 0) call.answer(Response.ok)
    else {
      val offset = call.long("offset")
      val record = store
        .recordAt(offset)
        .getOrElse(
          throw new Refusal(ResponseCode.SystemError, s"look message by offset failed, $offset")
        )
      giveBack(call, config, record)
    }
  }

  private def giveBack(call: Call, config: SubscriptionGroupConfig, record: DecodedRecord): Unit = {
    val delayLevel = call.int("delayLevel")
    val times = record.envelope.reconsumeTimes
    val isDead = delayLevel < 0 || times >= maxTimes(call, config)
    val level = if (delayLevel == 0) FirstRetryLevel + times else delayLevel
    val waiting = if (isDead) None else retry(config, record, level)
    val (target, content) = waiting.getOrElse(deadLetter(config, record, isExpected = isDead))
    store(call, record, target, content)
  }

  /** What comes again, unless the properties that a second try needs do not fit. */
  private def retry(
      config: SubscriptionGroupConfig,
      record: DecodedRecord,
      level: Int
  ): Option[(QueueKey, RecordContent)] = {
    val topic = creation.retryTopic(config.name, config.retryQueueNums).name
    val target = QueueKey(topic, settings.pickQueue(config.retryQueueNums))
    val placed = delays
      .place(target, returned(record, level))
      .fold(problem => throw Failures.illegalMessage(s"the message is illegal: $problem"), identity)
    Refitting
      .fitting(placed.properties)
      .map(p => (placed.queue, new RecordContent(record.content.flag, record.content.body, p)))
  }

  private def deadLetter(
      config: SubscriptionGroupConfig,
      record: DecodedRecord,
      isExpected: Boolean
  ): (QueueKey, RecordContent) = {
    if (isExpected)
      logger.info("message goes to the dead letters group={} at={}", config.name, record.position)
    else
      logger.warn(
        "a message has no room for the properties of a retry and goes to the dead letters " +
          "group={} at={}",
        config.name,
        record.position
      )
    val target = QueueKey(creation.dlqTopic(config.name).name, 0)
    (target, Refitting.again(record.content, returned(record, 0)))
  }

  private def maxTimes(call: Call, config: SubscriptionGroupConfig): Int =
    call
      .optionalInt("maxReconsumeTimes")
      .filter(_ => call.command.version >= SendHandler.VersionWithMaxReconsumeTimes)
      .getOrElse(config.retryMaxTimes)

  private def returned(record: DecodedRecord, level: Int): VectorMap[String, String] = {
    val before = Redelivery.propertiesOf(record)
    val id = MessageId.offsetMessageId(record.envelope.storeHost, record.position.commitLogOffset)
    before
      .updated(
        MessageProperties.RetryTopic,
        before.getOrElse(MessageProperties.RetryTopic, record.envelope.topic)
      )
      .updated(
        MessageProperties.OriginMessageId,
        before.getOrElse(MessageProperties.OriginMessageId, id)
      )
      .updated(MessageProperties.Wait, "false")
      .updated(MessageProperties.Delay, level.toString)
  }

  private def store(
      call: Call,
      record: DecodedRecord,
      target: QueueKey,
      content: RecordContent
  ): Unit = {
    val envelope = record.envelope.copy(
      topic = target.topic,
      queueId = target.queueId,
      storeHost = settings.identity.storeHost,
      reconsumeTimes = record.envelope.reconsumeTimes + 1
    )
    store.append(envelope, Vector(content)) {
      case _: AppendOutcome.Stored => call.answer(Response.ok)
      case refused: AppendOutcome.Impossible => call.fail(Failures.impossible(refused))
      case AppendOutcome.Unavailable(reason) => call.fail(Failures.unavailable(reason))
    }
  }
}

object RetryHandler {
  private val logger = LoggerFactory.getLogger(classOf[RetryHandler])

  // RocketMQ: the first retry waits for delay level 3, ten seconds.
  private val FirstRetryLevel = 3
}
