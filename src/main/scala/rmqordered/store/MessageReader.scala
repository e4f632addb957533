package rmqordered.store

import java.nio.ByteBuffer

import scala.annotation.tailrec

import rmqordered.model.{MessageFilter, QueueKey}
import rmqordered.protocol.{DecodedRecord, MessageProperties, RecordReader, StoredRecord}
import rmqordered.util.WorkTurn

/**
 * Reads queues: their messages, where they begin and end, what was stored when. Retention may take
 * messages while they are read; a reader then sees the queue as it is afterwards.
 *
 * Thread-safe; takes no lock.
 */
final class MessageReader(
    log: CommitLog,
    queues: QueueTable,
    seals: SealCheck,
    faults: StoreFaults
) {
  import MessageReader._

  /** Reads messages of a queue until the turn is over. An unknown queue is an empty one. */
  @tailrec
  def read(key: QueueKey, request: ReadRequest, turn: WorkTurn): ReadResult = {
    val start = request.startOffset
    val answer = queues.get(key) match {
      case None =>
        Some(ReadResult(ReadStatus.NoMessageInQueue, 0L, 0L, 0L, LogSlices.empty))
      case Some(queue) =>
        val (min, max) = (queue.minOffset, queue.maxOffset)
        def empty(status: ReadStatus, next: Long) =
          Some(ReadResult(status, next, min, max, LogSlices.empty))
        if (max == 0) empty(ReadStatus.NoMessageInQueue, 0L)
        else if (start < min) empty(ReadStatus.OffsetTooSmall, min)
        else if (start == max) empty(ReadStatus.OffsetOverflowOne, start)
        else if (start > max) empty(ReadStatus.OffsetOverflowBadly, max)
        else
          lostUntil(queue, start, max) match {
            // As if retention had taken them: readers are told that messages are gone, and from
            // where on there are some again.
            case Some(end) =>
              Some(ReadResult(ReadStatus.OffsetTooSmall, end, end, max, LogSlices.empty))
            case None => scan(key, queue, request, max, turn)
          }
    }
    answer match {
      case Some(result) => result
      // Retention took the messages between the two looks; the queue's new minimum says so.
      case None if minOffset(key) > start || queues.get(key).isEmpty =>
        read(key, request, turn)
      case None => throw faults.damagedUnit(key, start, OutsideTheLog)
    }
  }

  /** Where lost messages end that begin at an offset. */
  private def lostUntil(queue: ConsumeQueue, start: Long, max: Long): Option[Long] = {
    var end = start
    queue.scan(start, max) { (queueOffset, _, size, _) =>
      val isLost = size == QueueRebuild.LostSize
      if (isLost) end = queueOffset + 1
      isLost
    }
    Option.when(end > start)(end)
  }

  private def scan(
      key: QueueKey,
      queue: ConsumeQueue,
      request: ReadRequest,
      max: Long,
      turn: WorkTurn
  ): Option[ReadResult] = {
    val limits = request.limits
    val found = new LogSlices.Builder
    val scanEnd = Math.min(max, request.startOffset + limits.maxScan)
    var next = request.startOffset
    val filter = request.filter
    var segment: MappedSegment = null
    var checked: SealCheck#Checked = null
    var lastPlace = 0L
    queue.scan(request.startOffset, scanEnd) { (queueOffset, commitLogOffset, size, tagsCode) =>
      val isFull = found.messageCount > 0 &&
        (found.messageCount >= limits.maxMessages || found.byteCount + size > limits.maxBytes)
      // Garbage has any tag, so a filter would pass over it without a word.
      val isUnit = commitLogOffset >= lastPlace && size >= StoredRecord.MinBytes
      lastPlace = commitLogOffset
      // What cannot be served ends the answer; it is an error for whoever begins with it.
      def orElse(problem: => Exception): Boolean = {
        if (queueOffset == request.startOffset) throw problem
        false
      }
      if (isFull || turn.isOver) false
      else if (!isUnit) orElse(wrongUnit(key, queueOffset, commitLogOffset, size))
      else if (!filter.matches(tagsCode)) {
        turn.lookedAt()
        next = queueOffset + 1
        true
      } else {
        val current = segmentFor(segment, commitLogOffset)
        if (current != null && (current ne segment)) checked = seals.of(current)
        segment = current
        val at = if (current == null) 0 else (commitLogOffset - current.baseOffset).toInt
        if (current == null) false
        else if (!isAt(current, at, key.queueId, queueOffset, size))
          orElse(wrongUnit(key, queueOffset, commitLogOffset, size))
        else if (!checked.isGood(at, size)) orElse(new LostMessage(key, queueOffset))
        else {
          if (isWanted(filter, current, at, size, turn)) found.add(current, at, size)
          next = queueOffset + 1
          true
        }
      }
    }
    val status = if (found.messageCount > 0) ReadStatus.Found else ReadStatus.NoMatchedMessage
    Option.when(next > request.startOffset || turn.isOver)(ReadResult(
      status,
      next,
      queue.minOffset,
      max,
      found.result()
    ))
  }

  /** Whether a message whose tags match passes the rest of the filter. */
  private def isWanted(
      filter: MessageFilter,
      segment: MappedSegment,
      at: Int,
      size: Int,
      turn: WorkTurn
  ): Boolean =
    if (filter.isEverything) true
    else if (!filter.readsProperties) {
      turn.lookedAt()
      true
    } else {
      segment.noteRead(size)
      matchesProperties(filter, segment.bytes.slice(at, size), turn)
    }

  private def matchesProperties(
      filter: MessageFilter,
      record: ByteBuffer,
      turn: WorkTurn
  ): Boolean = {
    val properties = RecordReader.properties(record)
    val selected = MessageProperties.select(properties, filter.propertyNames)
    val isMatch = filter.matchesProperties(selected)
    turn.lookedInto(properties.length)
    isMatch
  }

  private def wrongUnit(key: QueueKey, queueOffset: Long, place: Long, size: Int): Exception =
    if (size == QueueRebuild.LostSize) new LostMessage(key, queueOffset)
    else faults.damagedUnit(key, queueOffset, s"at $place, where no such message is")

  /**
   * One message of a queue, taken apart; nothing when the queue does not hold it.
   *
   * @throws java.io.IOException
   *   when it should be there and is not: it must not be taken for one that never was
   */
  def record(key: QueueKey, queueOffset: Long): Option[DecodedRecord] =
    queues.get(key)
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.maxOffset)
      .flatMap { queue =>
        var found: Option[DecodedRecord] = None
        queue.scan(queueOffset, queueOffset + 1) { (_, commitLogOffset, size, _) =>
          if (size < StoredRecord.MinBytes)
            throw wrongUnit(key, queueOffset, commitLogOffset, size)
          found = log.segmentAt(commitLogOffset).flatMap { segment =>
            val at = (commitLogOffset - segment.baseOffset).toInt
            if (!isAt(segment, at, key.queueId, queueOffset, size))
              throw wrongUnit(key, queueOffset, commitLogOffset, size)
            if (!seals.isGood(segment, at, size)) throw new LostMessage(key, queueOffset)
            LogRecords.at(segment, at, commitLogOffset)
          }
          false
        }
        if (found.isEmpty && queueOffset >= queue.minOffset)
          throw faults.damagedUnit(key, queueOffset, OutsideTheLog)
        found
      }

  private def segmentFor(current: MappedSegment, offset: Long): MappedSegment =
    if (current != null && offset >= current.baseOffset && offset < current.endOffset) current
    else log.segmentAt(offset).orNull

  private def passes(
      filter: MessageFilter,
      commitLogOffset: Long,
      size: Int,
      tagsCode: Long,
      turn: WorkTurn
  ): Boolean =
    if (filter.isEverything) true
    else if (!filter.matches(tagsCode)) {
      turn.lookedAt()
      false
    } else if (!filter.readsProperties) {
      turn.lookedAt()
      true
    } else
      log.record(commitLogOffset, size) match {
        case None =>
          turn.lookedAt()
          false
        case Some(record) => matchesProperties(filter, record, turn)
      }

  /** Looks for a message from `start` to before `end` that the filter lets through. */
  def search(
      key: QueueKey,
      start: Long,
      end: Long,
      filter: MessageFilter,
      turn: WorkTurn
  ): QueueSearch = {
    var found = false
    var next = start
    queues.get(key).foreach { queue =>
      val last = Math.min(end, queue.maxOffset)
      next = Math.max(start, queue.minOffset)
      queue.scan(next, last) { (queueOffset, commitLogOffset, size, tagsCode) =>
        if (!turn.isOver) {
          found = passes(filter, commitLogOffset, size, tagsCode, turn)
          next = queueOffset + 1
        }
        !found && !turn.isOver
      }
      // What retention took away meanwhile is not looked for.
      if (!found && !turn.isOver) next = last
    }
    QueueSearch(found, next)
  }

  def minOffset(key: QueueKey): Long = queues.get(key).fold(0L)(_.minOffset)

  def maxOffset(key: QueueKey): Long = queues.get(key).fold(0L)(_.maxOffset)

  /** When a message was stored, or nothing if the queue has no such message. */
  def storeTimestamp(key: QueueKey, queueOffset: Long): Option[Long] =
    queues.get(key)
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.maxOffset)
      .map(queue => storedAt(key, queue, queueOffset))

  private def storedAt(key: QueueKey, queue: ConsumeQueue, queueOffset: Long): Long = {
    var time = -1L
    queue.scan(queueOffset, queueOffset + 1) { (_, commitLogOffset, size, _) =>
      log.segmentAt(commitLogOffset) match {
        case Some(segment) =>
          val at = (commitLogOffset - segment.baseOffset).toInt
          // Of a lost message it is the time of the one before it, where its unit points.
          if (size != QueueRebuild.LostSize && !isAt(segment, at, key.queueId, queueOffset, size))
            throw wrongUnit(key, queueOffset, commitLogOffset, size)
          time = log.storeTimestamp(commitLogOffset)
        case None if queueOffset >= queue.minOffset =>
          throw faults.damagedUnit(key, queueOffset, OutsideTheLog)
        case None => ()
      }
      false
    }
    time
  }

  /** The offset a timestamp means. Store times never fall within a queue, hence a binary search. */
  def offsetByTime(key: QueueKey, timestamp: Long, boundary: TimeBoundary): Long =
    queues.get(key).fold(0L) { queue =>
      val (min, max) = (queue.minOffset, queue.maxOffset)
      boundary match {
        case TimeBoundary.Lower => firstOffset(min, max)(storedAt(key, queue, _) >= timestamp)
        case TimeBoundary.Upper =>
          Math.max(firstOffset(min, max)(storedAt(key, queue, _) > timestamp) - 1, min)
      }
    }

  private def firstOffset(min: Long, max: Long)(holds: Long => Boolean): Long = {
    var (low, high) = (min, max)
    while (low < high) {
      val middle = low + (high - low) / 2
      if (holds(middle)) high = middle else low = middle + 1
    }
    low
  }
}

object MessageReader {
  private val OutsideTheLog = "outside the commit log"

  /** Whether there is a record that says that it is this message, and as long as its unit says. */
  def isAt(segment: MappedSegment, at: Int, queueId: Int, queueOffset: Long, size: Int): Boolean =
    at >= 0 && at + StoredRecord.MinBytes <= segment.capacity && segment.bytes.getInt(at) == size &&
      segment.bytes.getInt(at + StoredRecord.QueueIdAt) == queueId &&
      segment.bytes.getLong(at + StoredRecord.QueueOffsetAt) == queueOffset
}
