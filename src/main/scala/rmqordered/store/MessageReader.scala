package rmqordered.store

import java.util.concurrent.ConcurrentHashMap

import rmqordered.model.{MessageFilter, QueueKey}
import rmqordered.protocol.{MessageProperties, RecordReader}

/**
 * Reads queues: their messages, where they begin and end, what was stored when.
 *
 * Thread-safe; takes no lock.
 */
final class MessageReader(log: CommitLog, queues: ConcurrentHashMap[QueueKey, ConsumeQueue]) {

  /** Reads messages of a queue. An unknown queue is an empty one. */
  def read(key: QueueKey, request: ReadRequest): ReadResult = {
    val start = request.startOffset
    Option(queues.get(key)) match {
      case None => ReadResult(ReadStatus.NoMessageInQueue, 0L, 0L, 0L, LogSlices.empty)
      case Some(queue) =>
        val (min, max) = (queue.minOffset, queue.maxOffset)
        def empty(status: ReadStatus, next: Long) =
          ReadResult(status, next, min, max, LogSlices.empty)
        if (max == 0) empty(ReadStatus.NoMessageInQueue, 0L)
        else if (start < min) empty(ReadStatus.OffsetTooSmall, min)
        else if (start == max) empty(ReadStatus.OffsetOverflowOne, start)
        else if (start > max) empty(ReadStatus.OffsetOverflowBadly, max)
        else scan(queue, request, max)
    }
  }

  private def scan(queue: ConsumeQueue, request: ReadRequest, max: Long): ReadResult = {
    val limits = request.limits
    val found = new LogSlices.Builder
    val scanEnd = Math.min(max, request.startOffset + limits.maxScan)
    var next = request.startOffset
    var segment: MappedSegment = null
    queue.scan(request.startOffset, scanEnd) { (queueOffset, commitLogOffset, size, tagsCode) =>
      val isFull = found.messageCount > 0 &&
        (found.messageCount >= limits.maxMessages || found.byteCount + size > limits.maxBytes)
      if (!isFull) {
        if (passes(request.filter, commitLogOffset, size, tagsCode)) {
          segment = segmentFor(segment, commitLogOffset)
          found.add(segment, (commitLogOffset - segment.baseOffset).toInt, size)
        }
        next = queueOffset + 1
      }
      !isFull
    }
    val status = if (found.messageCount > 0) ReadStatus.Found else ReadStatus.NoMatchedMessage
    ReadResult(status, next, queue.minOffset, max, found.result())
  }

  private def passes(
      filter: MessageFilter,
      commitLogOffset: Long,
      size: Int,
      tagsCode: Long
  ): Boolean =
    filter.matches(tagsCode) && (!filter.readsProperties || log.record(
      commitLogOffset,
      size
    ).exists {
      record => filter.matchesProperties(MessageProperties.decode(RecordReader.properties(record)))
    })

  private def segmentFor(current: MappedSegment, offset: Long): MappedSegment =
    if (current != null && current.holds(offset)) current
    else
      log
        .segmentAt(offset)
        .getOrElse(throw new IllegalStateException(s"no commit log file holds offset $offset"))

  /** Whether a queue has a message from `start` to before `end` that the filter lets through. */
  def hasMatch(key: QueueKey, start: Long, end: Long, filter: MessageFilter): Boolean =
    Option(queues.get(key)).exists { queue =>
      var found = false
      queue.scan(Math.max(start, queue.minOffset), Math.min(end, queue.maxOffset)) {
        (_, commitLogOffset, size, tagsCode) =>
          found = passes(filter, commitLogOffset, size, tagsCode)
          !found
      }
      found
    }

  def minOffset(key: QueueKey): Long = Option(queues.get(key)).fold(0L)(_.minOffset)

  def maxOffset(key: QueueKey): Long = Option(queues.get(key)).fold(0L)(_.maxOffset)

  /** When a message was stored, or nothing if the queue has no such message. */
  def storeTimestamp(key: QueueKey, queueOffset: Long): Option[Long] =
    Option(queues.get(key))
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.maxOffset)
      .map(queue => log.storeTimestamp(queue.commitLogOffset(queueOffset)))

  /** The offset a timestamp means. Store times never fall within a queue, hence a binary search. */
  def offsetByTime(key: QueueKey, timestamp: Long, boundary: TimeBoundary): Long =
    Option(queues.get(key)).fold(0L) { queue =>
      def storedAt(queueOffset: Long): Long = log.storeTimestamp(queue.commitLogOffset(queueOffset))
      val (min, max) = (queue.minOffset, queue.maxOffset)
      boundary match {
        case TimeBoundary.Lower => firstOffset(min, max)(storedAt(_) >= timestamp)
        case TimeBoundary.Upper =>
          Math.max(firstOffset(min, max)(storedAt(_) > timestamp) - 1, min)
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
