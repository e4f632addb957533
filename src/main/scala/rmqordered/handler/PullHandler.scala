package rmqordered.handler

import rmqordered.group.{ConsumerGroups, SubscriptionGroups}
import rmqordered.model.{MessageFilter, Names, Perm, QueueKey, Subscription}
import rmqordered.offset.{ConsumerOffsets, OffsetKey}
import rmqordered.protocol.{ExtFields, ResponseCode}
import rmqordered.stats.Traffic
import rmqordered.store.{MessageStore, ReadLimits, ReadRequest, ReadResult, ReadStatus}
import rmqordered.util.{Clock, WorkTurn, WorkTurns}

/** How much one pull may bring. */
final case class PullLimits(maxMessages: Int, maxBytes: Int)

/** The tables a pull consults. */
final case class PullTables(
    store: MessageStore,
    offsets: ConsumerOffsets,
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    traffic: Traffic
)

/**
 * Pulls (11, 361), with long polling. A pull that finds nothing new waits under its queue and is
 * judged again from the start when it is woken, its lease epoch included.
 */
final class PullHandler(
    tables: PullTables,
    parked: ParkedPulls,
    filters: Filters,
    fence: LeaseFence,
    writes: WriteFence,
    wide: PullLimits,
    clock: Clock,
    turns: WorkTurns
) {
  import PullHandler._
  import tables._

  def pull(call: Call): Unit = evaluate(call, None)

  /**
   * New messages in a queue: whoever waits for such messages is answered. Their sender waits for
   * this; so what takes longer than a turn, or has to look into messages, is left to the turns of
   * those that wait.
   */
  def onArrival(key: QueueKey): Unit = {
    val turn = turns.begin()
    val later = Vector.newBuilder[ParkedPull]
    parked.arrived(key) { pull =>
      val isFound = !pull.request.filter.readsProperties && isFor(pull, turn)
      if (!isFound && pull.scannedTo < store.maxOffset(key)) later += pull
      isFound
    }
    later.result().foreach(lookLater)
  }

  private def lookLater(pull: ParkedPull): Unit = pull.lookLater { () =>
    val isWoken = parked.judge(pull)(isFor(_, turns.begin()))
    if (!isWoken && pull.scannedTo < store.maxOffset(pull.key)) lookLater(pull)
  }

  /** Whether something that came since the last look is for a poll, as far as the turn goes. */
  private def isFor(pull: ParkedPull, turn: WorkTurn): Boolean =
    !turn.isOver && {
      val end = store.maxOffset(pull.key)
      val found = store.search(pull.key, pull.scannedTo, end, pull.request.filter, turn)
      if (!found.isFound) pull.scannedTo = Math.max(pull.scannedTo, found.next)
      found.isFound
    }

  /** @param waited the poll that this is the end of */
  private def evaluate(call: Call, waited: Option[ParkedPull]): Unit = {
    val key = QueueKey(call.text("topic"), call.int("queueId"))
    val group = call.text("consumerGroup")
    ensureReadable(key, group)
    fence.ensure(call, group, key)
    val isNamed =
      writes.isNamed(call, group, key, fence.epochOf(call))(() => resume(call, waited))
    if (isNamed) serve(call, key, group, waited)
  }

  private def serve(call: Call, key: QueueKey, group: String, waited: Option[ParkedPull]): Unit = {
    val isFirst = waited.isEmpty
    val sysFlag = call.int("sysFlag")
    val request =
      ReadRequest(call.long("queueOffset"), limits(call), filter(call, group, key, sysFlag))
    pendingReset(call, OffsetKey(group, key), request.startOffset) match {
      case Some(reset) => call.answer(moved(key, reset))
      case None =>
        val result = read(key, request, waited)
        if (isFirst && (sysFlag & CommitOffsetBit) != 0) commit(call, OffsetKey(group, key))
        val waits = isFirst && (sysFlag & SuspendBit) != 0 && isNothingNew(result, request)
        if (!(waits && park(call, OffsetKey(group, key), request))) {
          traffic.onPulled(group, key.topic, result.messages.messageCount)
          call.answer(response(result, request))
        }
    }
  }

  /** What a poll has passed over while it waited is not looked at again by the same filter. */
  private def read(key: QueueKey, request: ReadRequest, waited: Option[ParkedPull]): ReadResult = {
    val start = waited
      .filter(_.request.filter == request.filter)
      .filter(_ => request.startOffset >= store.minOffset(key))
      .fold(request.startOffset)(pull => Math.max(pull.scannedTo, request.startOffset))
    val result = store.read(key, request.copy(startOffset = start), turns.begin())
    if (start > request.startOffset && result.status == ReadStatus.OffsetOverflowOne)
      result.copy(status = ReadStatus.NoMatchedMessage)
    else result
  }

  /**
   * A reset the group has not heard of. Who pulls under a lease and from that very offset has: it
   * need not be told, and would take the news for lost messages.
   */
  private def pendingReset(call: Call, key: OffsetKey, start: Long): Option[Long] =
    offsets.takeReset(key).filterNot(_ == start && fence.epochOf(call).isDefined)

  private def moved(key: QueueKey, reset: Long): Response =
    Response(
      ResponseCode.PullOffsetMoved,
      Some("OFFSET_RESET"),
      Some(positions(store.maxOffset(key), store.minOffset(key), reset))
    )

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
        s"queueId[${key.queueId}] is illegal, topic:[${key.topic}] " +
          s"topicConfig.readQueueNums:[${topic.readQueueNums}]"
      )
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

  private def filter(call: Call, group: String, key: QueueKey, sysFlag: Int): MessageFilter = {
    val subscription =
      if ((sysFlag & SubscriptionBit) != 0) requestSubscription(call, key)
      else registeredSubscription(call, group, key)
    filters.of(subscription)
  }

  private def requestSubscription(call: Call, key: QueueKey): Subscription =
    Subscription(
      key.topic,
      call.optional("subscription").getOrElse(Subscription.All),
      call.optional("expressionType").getOrElse(Subscription.TagType),
      call.optionalLong("subVersion").getOrElse(0L)
    )

  private def registeredSubscription(call: Call, group: String, key: QueueKey): Subscription = {
    if (consumers.isBroadcasting(group) && groups.get(group).exists(!_.consumeBroadcastEnable))
      throw Failures.noPermission(s"the consumer group[$group] can not consume by broadcast way")
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
    // Who gets everything gets enough, whatever tags it has in mind since its last heartbeat:
    // clients filter tags again. RocketMQ makes them wait for the next heartbeat, up to 30 s.
    val isEnough = found.isEverything &&
      call.optional("expressionType").forall(_ == Subscription.TagType)
    if (!isEnough && found.subVersion < call.optionalLong("subVersion").getOrElse(0L))
      throw new Refusal(
        ResponseCode.SubscriptionNotLatest,
        "the consumer's subscription not latest"
      )
    found
  }

  private def commit(call: Call, key: OffsetKey): Unit =
    call.optionalLong("commitOffset").filter(_ >= 0).foreach { committed =>
      fence.epochOf(call) match {
        case None => offsets.commitIfRoom(key, committed)
        case Some(epoch) =>
          // The piggybacked offset may be older than the last commit; it then loses without an
          // error.
          val _ =
            fence.under(key.group, key.queue, epoch)(offsets.commitForwardIfRoom(key, committed))
      }
    }

  private def isNothingNew(result: ReadResult, request: ReadRequest): Boolean =
    responseCode(result, request) == ResponseCode.PullNotFound

  /** A reset: polls of that group must not wait behind the old offset. */
  def onReset(key: OffsetKey): Unit = parked.arrived(key.queue)(_.group == key.group)

  private def park(call: Call, key: OffsetKey, request: ReadRequest): Boolean = {
    val timeout = call.optionalLong("suspendTimeoutMillis").getOrElse(0L)
    val bounded = Math.min(Math.max(timeout, 0L), MaxSuspendMs)
    val deadline = clock.monotonicMillis() + bounded
    call.keepOnly(NeededFields: _*)
    lazy val pull: ParkedPull = new ParkedPull(
      key.queue,
      key.group,
      request,
      call.connection,
      deadline,
      call.optional("subscription").fold(0)(_.length),
      () => resume(call, Some(pull)),
      () => call.abandon()
    )
    val isParked = parked.park(pull)
    // Messages may have come between the read and the parking; their arrival woke nobody.
    if (isParked && pull.scannedTo < store.maxOffset(key.queue)) lookLater(pull)
    isParked
  }

  private def resume(call: Call, waited: Option[ParkedPull]): Unit =
    try evaluate(call, waited)
    catch { case error: Throwable => call.fail(error) }

  private def response(result: ReadResult, request: ReadRequest): Response = {
    val code = responseCode(result, request)
    val fields = positions(result.maxOffset, result.minOffset, result.nextOffset)
    Response(code, Some(remarks(result.status)), Some(fields), result.messages)
  }

  private def positions(max: Long, min: Long, next: Long): ExtFields = ExtFields(
    "maxOffset" -> max.toString,
    "minOffset" -> min.toString,
    "nextBeginOffset" -> next.toString,
    "suggestWhichBrokerId" -> "0"
  )

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

  // What a pull that has waited is judged by.
  private val NeededFields = Seq(
    "topic",
    "queueId",
    "consumerGroup",
    "sysFlag",
    "queueOffset",
    "maxMsgNums",
    "maxMsgBytes",
    "subscription",
    "expressionType",
    "subVersion",
    LeaseFence.EpochField,
    WriteFence.RunField
  )

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
