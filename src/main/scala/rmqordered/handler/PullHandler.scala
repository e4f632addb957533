package rmqordered.handler

import rmqordered.group.{ConsumerGroups, SubscriptionGroups}
import rmqordered.lease.{EpochCheck, QueueLockManager}
import rmqordered.model.{Names, Perm, QueueKey, Subscription, TagFilter}
import rmqordered.offset.{ConsumerOffsets, OffsetKey}
import rmqordered.protocol.{ExtFields, ResponseCode}
import rmqordered.store.{MessageStore, ReadLimits, ReadRequest, ReadResult, ReadStatus}
import rmqordered.util.Clock

/** How much one pull may bring. */
final case class PullLimits(maxMessages: Int, maxBytes: Int)

/** The tables a pull consults. */
final case class PullTables(
    store: MessageStore,
    offsets: ConsumerOffsets,
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    locks: QueueLockManager
)

/**
 * Pulls (11, 361), with long polling. A pull that finds nothing new waits under its queue and is
 * judged again from the start when it is woken, its lease epoch included.
 */
final class PullHandler(
    tables: PullTables,
    parked: ParkedPulls,
    identity: BrokerIdentity,
    wide: PullLimits,
    clock: Clock
) {
  import PullHandler._
  import tables._

  def pull(call: Call): Unit = evaluate(call, isFirst = true)

  /** New messages in a queue: whoever waits for such messages is answered. */
  def onArrival(key: QueueKey): Unit =
    parked.arrived(key) { pull =>
      val end = store.maxOffset(key)
      val isMatch = store.hasMatch(key, pull.scannedTo, end, pull.request.filter)
      pull.scannedTo = Math.max(pull.scannedTo, end)
      isMatch
    }

  private def evaluate(call: Call, isFirst: Boolean): Unit = {
    val key = QueueKey(call.text("topic"), call.int("queueId"))
    val group = call.text("consumerGroup")
    val sysFlag = call.int("sysFlag")
    ensureReadable(key, group)
    ensureEpoch(call, group, key)
    val request =
      ReadRequest(call.long("queueOffset"), limits(call), filter(call, group, key, sysFlag))
    val result = store.read(key, request)
    if (isFirst && (sysFlag & CommitOffsetBit) != 0) commit(call, OffsetKey(group, key))
    val waits = isFirst && (sysFlag & SuspendBit) != 0 && isNothingNew(result, request)
    if (!(waits && park(call, key, request))) call.answer(response(result, request))
  }

  private def ensureReadable(key: QueueKey, group: String): Unit = {
    Names.groupProblem(group).foreach(problem => throw Failures.invalid(problem))
    val config = groups.getOrCreate(group).getOrElse(throw Failures.groupNotExist(group))
    if (!config.consumeEnable)
      throw Failures.noPermission(s"subscription group no permission, $group")
    val topic = store.topics.get(key.topic).getOrElse(throw Failures.topicNotExist(key.topic))
    if (!Perm.isReadable(topic.perm))
      throw Failures.noPermission(s"the topic[${key.topic}] pulling message is forbidden")
    if (key.queueId < 0 || key.queueId >= topic.readQueueNums)
      throw Failures.invalid(
        s"queueId[${key.queueId}] is illegal, topic:[${key.topic}] topicConfig.readQueueNums:[${topic.readQueueNums}]"
      )
  }

  private def ensureEpoch(call: Call, group: String, key: QueueKey): Unit =
    call.optionalLong("leaseEpoch").foreach { epoch =>
      locks.check(group, identity.messageQueue(key), epoch) match {
        case EpochCheck.Current => ()
        case stale: EpochCheck.Stale => throw Failures.staleEpoch(group, key, epoch, stale)
      }
    }

  private def limits(call: Call): ReadLimits = {
    val wanted = Math.max(call.int("maxMsgNums"), 1)
    // Who names a byte limit gets what was asked for; who does not gets RocketMQ's own caps.
    val (messages, bytes) = call.optionalInt("maxMsgBytes") match {
      case Some(maxBytes) => (Math.min(wanted, wide.maxMessages), Math.min(maxBytes, wide.maxBytes))
      case None => (Math.min(wanted, RocketMqMaxMessages), RocketMqMaxBytes)
    }
    ReadLimits(messages, bytes, Math.max(messages, MinScan))
  }

  private def filter(call: Call, group: String, key: QueueKey, sysFlag: Int): TagFilter = {
    val subscription =
      if ((sysFlag & SubscriptionBit) != 0) requestSubscription(call, key)
      else registeredSubscription(call, group, key)
    if (!subscription.isTagType)
      throw new Refusal(
        ResponseCode.SystemError,
        s"The broker does not support consumer to filter message by ${subscription.expressionType}"
      )
    subscription.filter
  }

  private def requestSubscription(call: Call, key: QueueKey): Subscription =
    Subscription(
      key.topic,
      call.optional("subscription").getOrElse(Subscription.All),
      call.optional("expressionType").getOrElse(Subscription.TagType),
      call.optionalLong("subVersion").getOrElse(0L)
    )

  private def registeredSubscription(call: Call, group: String, key: QueueKey): Subscription = {
    val found = consumers
      .subscription(group, key.topic)
      .getOrElse(
        throw new Refusal(
          ResponseCode.SubscriptionNotExist,
          if (consumers.contains(group))
            s"the consumer's subscription not exist, topic ${key.topic}"
          else s"the consumer's group info not exist, group $group"
        )
      )
    if (found.subVersion < call.optionalLong("subVersion").getOrElse(0L))
      throw new Refusal(
        ResponseCode.SubscriptionNotLatest,
        "the consumer's subscription not latest"
      )
    found
  }

  private def commit(call: Call, key: OffsetKey): Unit =
    call.optionalLong("commitOffset").filter(_ >= 0).foreach { committed =>
      if (call.optional("leaseEpoch").isEmpty) offsets.commit(key, committed)
      else {
        // Under a lease the piggybacked offset may be older than the last commit; it then loses.
        val _ = offsets.commitForward(key, committed)
      }
    }

  private def isNothingNew(result: ReadResult, request: ReadRequest): Boolean =
    responseCode(result, request) == ResponseCode.PullNotFound

  private def park(call: Call, key: QueueKey, request: ReadRequest): Boolean = {
    val timeout = call.optionalLong("suspendTimeoutMillis").getOrElse(0L)
    val bounded = Math.min(Math.max(timeout, 0L), MaxSuspendMs)
    val deadline = clock.monotonicMillis() + bounded
    val pull = new ParkedPull(key, request, call.connection, deadline, () => resume(call))
    val isParked = parked.park(pull)
    // Messages may have come between the read and the parking; their arrival woke nobody.
    if (isParked) onArrival(key)
    isParked
  }

  private def resume(call: Call): Unit =
    try evaluate(call, isFirst = false)
    catch { case error: Exception => call.fail(error) }

  private def response(result: ReadResult, request: ReadRequest): Response = {
    val code = responseCode(result, request)
    val fields = ExtFields(
      "maxOffset" -> result.maxOffset.toString,
      "minOffset" -> result.minOffset.toString,
      "nextBeginOffset" -> result.nextOffset.toString,
      "suggestWhichBrokerId" -> "0"
    )
    Response(code, Some(remarks(result.status)), Some(fields), result.messages)
  }

  private def responseCode(result: ReadResult, request: ReadRequest): Int = result.status match {
    case ReadStatus.Found => ResponseCode.Success
    case ReadStatus.OffsetOverflowOne => ResponseCode.PullNotFound
    case ReadStatus.NoMessageInQueue if request.startOffset == 0 => ResponseCode.PullNotFound
    case ReadStatus.NoMatchedMessage => ResponseCode.PullRetryImmediately
    case ReadStatus.NoMessageInQueue | ReadStatus.OffsetTooSmall | ReadStatus.OffsetOverflowBadly =>
      ResponseCode.PullOffsetMoved
  }
}

object PullHandler {
  private val CommitOffsetBit = 1
  private val SuspendBit = 2
  private val SubscriptionBit = 4

  // RocketMQ 5.x: maxTransferCountOnMessageInMemory, maxTransferBytesOnMessageInMemory, and 16,000
  // bytes of index (maxFilterMessageSize) looked at per pull.
  private val RocketMqMaxMessages = 32
  private val RocketMqMaxBytes = 256 * 1024
  private val MinScan = 800

  // Clients ask for 15 to 20 s; whoever asks for more than two minutes gets two minutes.
  private val MaxSuspendMs = 120000L

  private def remarks(status: ReadStatus): String = status match {
    case ReadStatus.Found => "FOUND"
    case ReadStatus.NoMatchedMessage => "NO_MATCHED_MESSAGE"
    case ReadStatus.NoMessageInQueue => "NO_MESSAGE_IN_QUEUE"
    case ReadStatus.OffsetTooSmall => "OFFSET_TOO_SMALL"
    case ReadStatus.OffsetOverflowOne => "OFFSET_OVERFLOW_ONE"
    case ReadStatus.OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY"
  }
}
