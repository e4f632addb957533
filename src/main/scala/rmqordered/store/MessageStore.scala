package rmqordered.store

import java.io.IOException
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.model.{MessageFilter, QueueKey}
import rmqordered.protocol.{
  DecodedRecord,
  MessageProperties,
  RecordContent,
  RecordEnvelope,
  RecordReader,
  StoredRecord
}
import rmqordered.util.Clock

/** What became of an append. */
sealed trait AppendOutcome

object AppendOutcome {

  /** Stored and as durable as configured; offsets by message, in order. */
  final case class Stored(queueOffset: Long, commitLogOffsets: Array[Long]) extends AppendOutcome
  final case class TooLarge(bytes: Long, limit: Int) extends AppendOutcome

  /** Nothing was acknowledged; the sentence says why. */
  final case class Unavailable(reason: String) extends AppendOutcome
}

/**
 * Messages: the commit log, the queues over it, and their recovery.
 *
 * Invariants: a queue's offsets are dense; unit n of a queue points at a record that says it is
 * message n of that queue; a message is readable only when it is as durable as configured.
 *
 * Thread-safety: any thread. Appends are serialised by one lock held for a memory copy; reads take
 * none. After a crash the log is a prefix of what was appended that holds everything acknowledged.
 *
 * @param onArrival
 *   called after new messages of a queue became readable, by the thread that made them so
 */
final class MessageStore(
    directory: DataDirectory,
    config: BrokerConfig,
    val topics: TopicTable,
    clock: Clock,
    onArrival: QueueKey => Unit
) {
  import MessageStore._

  private val queues = new ConcurrentHashMap[QueueKey, ConsumeQueue]()
  private val appendLock = new Object
  private var lastStoreTimestamp = 0L
  private val log = recover()
  private val groupCommit =
    new GroupCommit(log, config(Settings.flushDiskType), config(Settings.flushIntervalMs))
  @volatile private var closed = false

  private def recover(): CommitLog = {
    // The queues are an index of the log and are rebuilt from it: so they match it exactly.
    deleteTree(directory.consumeQueues)
    val segmentBytes = config(Settings.mappedFileSizeCommitLog)
    val recovery = new Recovery(directory.commitLog, segmentBytes)
    val recovered = recovery.run { record =>
      val key = QueueKey(record.envelope.topic, record.envelope.queueId)
      ensureTopicsKnown()
      if (topics.isAlive(key.topic, record.position.commitLogOffset)) {
        val queue = queueOf(key)
        ensureDense(key, queue.nextOffset, record.position.queueOffset)
        queue.ensureRoom(1)
        queue.append(record.position.commitLogOffset, record.size, record.content.tagsCode)
        queue.publish(queue.nextOffset)
      }
    }
    topics.lowerTombstones(recovered.end)
    lastStoreTimestamp = recovered.lastStoreTimestamp
    new CommitLog(directory.commitLog, segmentBytes, recovered)
  }

  private def ensureTopicsKnown(): Unit =
    if (topics.isEmpty)
      throw new StoreError(
        s"The commit log in ${directory.path} holds messages but its topic table is missing; restore config/topics.json."
      )

  private def ensureDense(key: QueueKey, expected: Long, found: Long): Unit =
    if (expected != found)
      throw new StoreError(
        s"The commit log in ${directory.path} is damaged: queue $key goes on at offset $found where $expected is expected."
      )

  /**
   * Appends one message, or a batch that lands in consecutive offsets of one queue, all or none.
   * The topic must have been checked. `done` may be called by this thread or another.
   */
  def append(envelope: RecordEnvelope, contents: Vector[RecordContent])(
      done: AppendOutcome => Unit
  ): Unit = {
    val bytes = contents.iterator.map(StoredRecord.size(envelope, _).toLong).sum
    if (bytes > log.maxAppendBytes) done(AppendOutcome.TooLarge(bytes, log.maxAppendBytes))
    else
      unavailable match {
        case Some(reason) => done(AppendOutcome.Unavailable(reason))
        case None =>
          try appendLocked(envelope, contents, done)
          catch {
            case error: IOException =>
              logger.warn("an append was refused topic={}", envelope.topic, error)
              done(AppendOutcome.Unavailable(s"the commit log cannot grow: ${error.getMessage}"))
          }
      }
  }

  private def unavailable: Option[String] =
    if (closed) Some("the broker is stopping")
    else groupCommit.failed.map(error => s"the commit log cannot be flushed: ${error.getMessage}")

  private def appendLocked(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      done: AppendOutcome => Unit
  ): Unit = {
    val key = QueueKey(envelope.topic, envelope.queueId)
    val (queue, first, appended) = appendLock.synchronized {
      val queue = queueOf(key)
      // Room for the index first: once the log has the records there is no way back.
      queue.ensureRoom(contents.length)
      lastStoreTimestamp = Math.max(lastStoreTimestamp, clock.wallMillis())
      val first = queue.nextOffset
      val appended = log.append(envelope, contents, first, lastStoreTimestamp)
      var i = 0
      contents.foreach { content =>
        queue.append(appended.offsets(i), appended.sizes(i), content.tagsCode)
        i += 1
      }
      (queue, first, appended)
    }
    groupCommit.whenDurable {
      case Some(error) =>
        done(AppendOutcome.Unavailable(s"the commit log cannot be flushed: ${error.getMessage}"))
      case None =>
        queue.publish(first + contents.length)
        onArrival(key)
        done(AppendOutcome.Stored(first, appended.offsets))
    }
  }

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
    if (
      current != null && offset >= current.baseOffset && offset < current.baseOffset + current.capacity
    ) current
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

  /** One message of a queue, taken apart. */
  def record(key: QueueKey, queueOffset: Long): Option[DecodedRecord] =
    Option(queues.get(key))
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.maxOffset)
      .flatMap(queue => recordAt(queue.commitLogOffset(queueOffset)))

  /** The message at a place in the commit log; clients name such places, right or wrong. */
  def recordAt(commitLogOffset: Long): Option[DecodedRecord] =
    log.segmentAt(commitLogOffset).flatMap { segment =>
      RecordReader.read(segment.bytes, (commitLogOffset - segment.baseOffset).toInt) match {
        case RecordReader.Found(record)
            if record.position.commitLogOffset == commitLogOffset &&
              topics.isAlive(record.envelope.topic, commitLogOffset) =>
          Some(record)
        case _ => None
      }
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

  /** Deletes a topic and its queues; its records stay in the log, dead. */
  def deleteTopic(topic: String): Unit = appendLock.synchronized {
    topics.remove(topic, log.maxOffset)
    queues.keySet().removeIf(_.topic == topic)
    deleteTree(directory.consumeQueues.resolve(topic))
  }

  /** Flushes and refuses further appends. */
  def close(): Unit = {
    closed = true
    // An append that got past the check still holds the lock; it is flushed below.
    appendLock.synchronized(())
    groupCommit.close()
  }

  private def queueOf(key: QueueKey): ConsumeQueue =
    queues.computeIfAbsent(
      key,
      _ => {
        val folder = directory.consumeQueues.resolve(key.topic).resolve(key.queueId.toString)
        new ConsumeQueue(folder, config(Settings.mappedFileSizeConsumeQueue))
      }
    )
}

object MessageStore {
  private val logger = LoggerFactory.getLogger(classOf[MessageStore])

  private def deleteTree(root: Path): Unit =
    if (Files.exists(root)) {
      val paths = Files.walk(root)
      try
        paths.sorted(java.util.Comparator.reverseOrder[Path]()).forEach(path => Files.delete(path))
      finally paths.close()
    }
}
