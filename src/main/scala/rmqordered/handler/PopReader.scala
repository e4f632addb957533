package rmqordered.handler

import scala.collection.mutable

import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.offset.{ConsumerOffsets, OffsetKey}
import rmqordered.pop.{CheckPoint, CheckPointId, PopRecord, PopTable, PoppedQueue}
import rmqordered.protocol.Body
import rmqordered.store.{MessageStore, ReadLimits, ReadRequest, ReadResult, ReadStatus}
import rmqordered.util.{Clock, WorkTurn, WorkTurns}

/**
 * Takes messages out of queues for a pop: reads what comes next and makes a check point of it,
 * queue by queue, each under its lock.
 */
final class PopReader(
    store: MessageStore,
    offsets: ConsumerOffsets,
    pops: PopTable,
    identity: BrokerIdentity,
    clock: Clock,
    pick: Int => Int,
    turns: WorkTurns
) {
  import PopReader._

  /** Pops for a request; `done` hears of it when everything found is on record. */
  def pop(request: PopRequest)(done: PopFinding => Unit): Unit = {
    ensureStartsKnown(request)
    val times = PopTimes(clock.wallMillis(), request.invisibleMs)
    val turn = new Turn(request, times)
    // As RocketMQ: one pop of five looks at failed messages first, the others look at them last.
    val retryFirst = pick(RetryTurns) == 0
    if (retryFirst) retries(turn)
    val ids = request.queueIds
    val first = if (ids.isEmpty) 0 else pick(ids.length)
    ids.indices.foreach { i =>
      val key = QueueKey(request.topic.name, ids((first + i) % ids.length))
      turn.take(key, PopReply.TopicKind)
    }
    if (!retryFirst) retries(turn)
    turn.finish(done)
  }

  /** Before anything is taken: what was taken would wait for its time to be over. */
  private def ensureStartsKnown(request: PopRequest): Unit =
    if (offsets.isLost) queuesOf(request).foreach { key =>
      val offsetKey = OffsetKey(request.group, key)
      pops.under(offsetKey)(queue => startOf(queue, offsetKey, request))
    }

  private def retries(turn: Turn): Unit =
    turn.request.retryTopics.zip(Seq(PopReply.RetryKind, PopReply.RetryKindV2)).foreach {
      case (name, kind) =>
        store.topics.get(name).foreach { topic =>
          (0 until topic.readQueueNums).foreach(id => turn.take(QueueKey(name, id), kind))
        }
    }

  /**
   * Whether a pop would find something now. True as well when a turn is not enough to know: the pop
   * then goes past what was looked at, which nobody does who only asks.
   */
  def mayHaveMessages(request: PopRequest): Boolean = {
    val turn = turns.begin()
    queuesOf(request).exists { key =>
      turn.lookedAt()
      turn.isOver || mayHaveMessages(request, key, turn)
    }
  }

  private def mayHaveMessages(request: PopRequest, key: QueueKey, turn: WorkTurn): Boolean = {
    val offsetKey = OffsetKey(request.group, key)
    val filter = if (key.topic == request.topic.name) request.filter else TagFilter.Everything
    // Not under the queue's lock: nothing is taken here.
    val start = pops.under(offsetKey) { queue =>
      Option.unless(isBlocked(queue, request))(startOf(queue, offsetKey, request))
    }
    start.exists { from =>
      store.search(key, from, store.maxOffset(key), filter, turn).isFound || turn.isOver
    }
  }

  private def queuesOf(request: PopRequest): Iterator[QueueKey] =
    request.queueIds.iterator.map(QueueKey(request.topic.name, _)) ++
      request.retryTopics.iterator.flatMap(store.topics.get).flatMap(topic =>
        (0 until topic.readQueueNums).iterator.map(QueueKey(topic.name, _))
      )

  /** When the first queue that blocks an orderly pop is free again. */
  def freeAt(request: PopRequest): Long =
    if (!request.isOrderly) Long.MaxValue
    else
      request.queueIds
        .flatMap(id => pops.state(OffsetKey(request.group, QueueKey(request.topic.name, id))))
        .flatMap(_.order)
        .filterNot(_.isSettled)
        .map(_.freeAt)
        .minOption
        .getOrElse(Long.MaxValue)

  private def isBlocked(queue: PoppedQueue, request: PopRequest): Boolean =
    request.isOrderly && queue.state.isBlocked(clock.wallMillis(), request.attemptId)

  /** Where the group goes on: also past what it committed by pulling. */
  private def startOf(queue: PoppedQueue, key: OffsetKey, request: PopRequest): Long =
    (queue.state.next ++ offsets.get(key)).maxOption.getOrElse {
      val min = store.minOffset(key.queue)
      // RocketMQ too lets a group that is new to a young queue begin at its beginning.
      if (!request.startsAtEnd || min == 0) min else Math.max(store.maxOffset(key.queue) - 1, min)
    }

  /** One pop at work. */
  private final class Turn(val request: PopRequest, times: PopTimes) {
    private val parts = Vector.newBuilder[PoppedMessages]
    private var count = 0
    private var bytes = 0
    private var restNum = 0L
    private var isCutShort = false
    private val work = turns.begin()
    // Counts the records under way; the last one to become durable answers.
    private val open = new mutable.ArrayBuffer[Option[String]]()
    private var unfinished = 1
    private var report: Option[() => Unit] = None

    def take(key: QueueKey, kind: Int): Unit =
      if (work.isOver) isCutShort = true
      else if (count < request.maxMessages && bytes < MaxBytes) {
        val offsetKey = OffsetKey(request.group, key)
        pops.under(offsetKey) { queue =>
          offsets.takeReset(offsetKey).foreach(offset =>
            keep(queue, PopRecord.Moved(offsetKey, offset))
          )
          if (!isBlocked(queue, request)) read(queue, offsetKey, kind)
        }
        // An empty queue is looked at too, and there may be many.
        work.lookedAt()
      }

    private def read(queue: PoppedQueue, key: OffsetKey, kind: Int): Unit = {
      val filter = if (kind == PopReply.TopicKind) request.filter else TagFilter.Everything
      val wanted = request.maxMessages - count
      val limits = ReadLimits(wanted, MaxBytes - bytes, Math.max(wanted, MinScan))
      val start = startOf(queue, key, request)
      val asked = ReadRequest(start, limits, filter)
      val result = store.read(key.queue, asked, work) match {
        case gone if gone.status == ReadStatus.OffsetTooSmall =>
          store.read(key.queue, asked.copy(startOffset = gone.nextOffset), work)
        case other => other
      }
      result.status match {
        case ReadStatus.Found => hand(queue, key, kind, result)
        case ReadStatus.NoMatchedMessage | ReadStatus.OffsetOverflowBadly =>
          queue.skipTo(result.nextOffset)
          offsets.commitIfRoom(key, result.nextOffset)
          isCutShort ||= result.nextOffset < result.maxOffset
        case _ => ()
      }
      restNum += Math.max(result.maxOffset - Math.max(result.nextOffset, start), 0L)
    }

    private def hand(queue: PoppedQueue, key: OffsetKey, kind: Int, result: ReadResult): Unit = {
      val found = PopReply.offsetsOf(result.messages)
      if (request.isOrderly) handInOrder(queue, key, found, result)
      else {
        val id = queue.state.freeId(found.head, times.popTime)
        keep(
          queue,
          PopRecord.Popped(key, CheckPoint(id, times.invisibleMs, found), result.nextOffset)
        )
        offsets.commitIfRoom(key, result.nextOffset)
        val body = bodyOf(key, kind, id, result)
        add(PoppedMessages(kind, key.queue.queueId, id.startOffset, found, body))
      }
    }

    private def handInOrder(
        queue: PoppedQueue,
        key: OffsetKey,
        found: Vector[Long],
        result: ReadResult
    ): Unit = {
      val done = queue.state.order.fold(Set.empty[Long])(_.acknowledged)
      val wanted = found.filterNot(done.contains)
      // A commit by pulling may have led to where all is acknowledged already.
      if (wanted.isEmpty) queue.skipTo(result.nextOffset)
      else {
        val record =
          queue.state.ordered(wanted, times.popTime, times.invisibleMs, request.attemptId)
        keep(queue, record)
        offsets.commitIfRoom(key, record.next)
        val body =
          if (wanted.length == found.length) result.messages
          else PopReply.only(result.messages, wanted.toSet)
        val counts = record.batch.map(_.counts)
        add(PoppedMessages(
          PopReply.TopicKind,
          key.queue.queueId,
          record.next,
          wanted,
          body,
          counts
        ))
      }
    }

    private def bodyOf(key: OffsetKey, kind: Int, id: CheckPointId, result: ReadResult): Body =
      if (kind == PopReply.TopicKind) result.messages
      else
        PopReply.relabelled(
          result.messages,
          request.topic.name,
          offset =>
            s"${id.startOffset} ${id.popTime} ${times.invisibleMs} 0 $kind " +
              s"${identity.brokerName} ${key.queue.queueId} $offset"
        )

    private def add(part: PoppedMessages): Unit = {
      parts += part
      count += part.offsets.length
      bytes += part.body.length
    }

    private def keep(queue: PoppedQueue, record: PopRecord): Unit = {
      synchronized(unfinished += 1)
      queue.record(record)(settled)
    }

    def finish(done: PopFinding => Unit): Unit = {
      report = Some { () =>
        done(PopFinding(parts.result(), times, restNum, isCutShort, open.flatten.headOption))
      }
      settled(None)
    }

    private def settled(problem: Option[String]): Unit = {
      val isLast = synchronized {
        open += problem
        unfinished -= 1
        unfinished == 0
      }
      if (isLast) report.foreach(_.apply())
    }
  }
}

object PopReader {
  // RocketMQ 5.x popFromRetryProbability: 20 percent.
  private val RetryTurns = 5

  // As RocketMQ's limits of a pull.
  private val MaxBytes = 256 * 1024
  private val MinScan = 800
}

/**
 * What a pop found.
 *
 * @param isCutShort
 *   whether there are further messages that may be wanted, behind many that are not
 * @param problem
 *   why it may not survive a crash; then it must not be handed out
 */
final case class PopFinding(
    parts: Vector[PoppedMessages],
    times: PopTimes,
    restNum: Long,
    isCutShort: Boolean,
    problem: Option[String]
)
