package rmqordered.store

import java.io.IOException

import org.slf4j.LoggerFactory

import scala.annotation.tailrec

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.protocol.{DecodedRecord, RecordContent, RecordEnvelope, StoredRecord}
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
 * Messages: the commit log, the queues and the key index over it.
 *
 * Invariants: a queue's offsets are dense; unit n of a queue points at a record that says it is
 * message n of that queue; a message is readable only when it is as durable as configured.
 *
 * Thread-safety: any thread. Appends are serialised by one lock held for a memory copy; reads take
 * none. After a crash the log is a prefix of what was appended that holds everything acknowledged.
 *
 * @param onArrival
 *   called after new messages of a queue became readable, by the thread that made them so
 * @param followers
 *   are brought up to date before the store is made, and written with each checkpoint
 * @param background
 *   whether a thread flushes; without one the caller does, with `flush`
 */
final class MessageStore(
    directory: DataDirectory,
    config: BrokerConfig,
    val topics: TopicTable,
    clock: Clock,
    onArrival: QueueKey => Unit,
    background: Boolean = true,
    indexShape: IndexShape = KeyIndex.DefaultShape,
    followers: Seq[LogFollower] = Nil
) {
  import MessageStore._

  private val appendLock = new Object
  private val parts = new StoreOpening(
    directory,
    config,
    topics,
    StoreUpkeep.readCheckpoint(directory),
    indexShape,
    followers
  ).open()
  import parts.{index, log, queues}

  private var lastStoreTimestamp = parts.storeTimestamp
  private val lookup = new MessageLookup(log, queues, index)
  private val isIndexed = config(Settings.messageIndexEnable)
  private val groupCommit =
    new GroupCommit(
      log,
      config(Settings.flushDiskType),
      config(Settings.flushIntervalMs),
      background
    )
  private val upkeep =
    new StoreUpkeep(
      directory,
      config,
      clock,
      parts,
      groupCommit,
      appendLock,
      () => lastStoreTimestamp,
      followers
    )
  @volatile private var closed = false
  // Before the first append: from now on it is known what was on disk at least.
  upkeep.checkpoint()
  upkeep.checkDisk()

  /** One past the last byte of the commit log. */
  def logEnd: Long = log.maxOffset

  /** The newest store time given out. */
  def lastStoreTime: Long = appendLock.synchronized(lastStoreTimestamp)

  /** How many records recovery had to read. */
  def scannedRecords: Long = parts.scannedRecords

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
    else if (upkeep.refusal.isDefined) upkeep.refusal
    else groupCommit.failed.map(error => s"the commit log cannot be flushed: ${error.getMessage}")

  private def appendLocked(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      done: AppendOutcome => Unit
  ): Unit = {
    val key = QueueKey(envelope.topic, envelope.queueId)
    val hashes = keyHashes(envelope, contents)
    val placed = appendLock.synchronized(place(envelope, contents, hashes))
    groupCommit.whenDurable {
      case Some(error) =>
        done(AppendOutcome.Unavailable(s"the commit log cannot be flushed: ${error.getMessage}"))
      case None =>
        placed.queue.publish(placed.end)
        onArrival(key)
        done(AppendOutcome.Stored(placed.first, placed.offsets))
    }
  }

  /** Puts records at the end of the log, of their queue and of the index. Under the append lock. */
  private def place(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      hashes: Array[Array[Int]]
  ): Placed = {
    val queue = queues.getOrCreate(QueueKey(envelope.topic, envelope.queueId))
    // Room for the indexes first: once the log has the records there is no way back.
    queue.ensureRoom(contents.length)
    index.ensureRoom(hashes.iterator.map(_.length).sum, log.maxOffset)
    lastStoreTimestamp = Math.max(lastStoreTimestamp, clock.wallMillis())
    val first = queue.nextOffset
    val appended = log.append(envelope, contents, first, lastStoreTimestamp)
    var i = 0
    contents.foreach { content =>
      queue.append(appended.offsets(i), appended.sizes(i), content.tagsCode)
      if (isIndexed) index.add(hashes(i), appended.offsets(i))
      i += 1
    }
    Placed(queue, first, appended.offsets)
  }

  private def keyHashes(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent]
  ): Array[Array[Int]] =
    if (!isIndexed) Array.empty
    else contents.iterator.map(c => MessageKeys.hashes(envelope.topicBytes, c.properties)).toArray

  /** Reads messages of a queue. An unknown queue is an empty one. */
  @tailrec
  def read(key: QueueKey, request: ReadRequest): ReadResult = {
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
        else scan(queue, request, max)
    }
    answer match {
      case Some(result) => result
      // Retention took the messages between the two looks; the queue's new minimum says so.
      case None if minOffset(key) > start || queues.get(key).isEmpty => read(key, request)
      case None => throw damagedUnit(start, "outside the commit log")
    }
  }

  private def scan(queue: ConsumeQueue, request: ReadRequest, max: Long): Option[ReadResult] = {
    val limits = request.limits
    val found = new LogSlices.Builder
    val scanEnd = Math.min(max, request.startOffset + limits.maxScan)
    var next = request.startOffset
    var segment: MappedSegment = null
    queue.scan(request.startOffset, scanEnd) { (queueOffset, commitLogOffset, size, tagsCode) =>
      val isFull = found.messageCount > 0 &&
        (found.messageCount >= limits.maxMessages || found.byteCount + size > limits.maxBytes)
      val isWanted = !isFull && request.filter.matches(tagsCode)
      if (isWanted) segment = segmentFor(segment, commitLogOffset)
      val goOn = !isFull && !(isWanted && segment == null)
      if (goOn) {
        if (isWanted) {
          val at = (commitLogOffset - segment.baseOffset).toInt
          ensureUnit(segment, at, queueOffset, size)
          found.add(segment, at, size)
        }
        next = queueOffset + 1
      }
      goOn
    }
    val status = if (found.messageCount > 0) ReadStatus.Found else ReadStatus.NoMatchedMessage
    Option.when(next > request.startOffset)(ReadResult(
      status,
      next,
      queue.minOffset,
      max,
      found.result()
    ))
  }

  // A queue file damaged while nobody looked must not make a pull serve anything but the message.
  private def ensureUnit(segment: MappedSegment, at: Int, queueOffset: Long, size: Int): Unit = {
    val isRight =
      at + StoredRecord.MinBytes <= segment.capacity && segment.bytes.getInt(at) == size &&
        segment.bytes.getLong(at + StoredRecord.QueueOffsetAt) == queueOffset
    if (!isRight)
      throw damagedUnit(queueOffset, s"at ${segment.baseOffset + at}, where no such message is")
  }

  private def damagedUnit(queueOffset: Long, where: String): IOException =
    new IOException(
      s"a consume queue is damaged: its unit $queueOffset points $where; " +
        "stop the broker, delete the consumequeue folder and start it again"
    )

  private def segmentFor(current: MappedSegment, offset: Long): MappedSegment =
    if (current != null && offset >= current.baseOffset && offset < current.endOffset) current
    else log.segmentAt(offset).orNull

  /** The message at a place in the commit log, if one that can be read starts exactly there. */
  def messageAt(commitLogOffset: Long): Option[LogSlices] = lookup.messageAt(commitLogOffset)

  /** The same, taken apart. */
  def recordAt(commitLogOffset: Long): Option[DecodedRecord] = lookup.recordAt(commitLogOffset)

  /** One message of a queue, taken apart. */
  def record(key: QueueKey, queueOffset: Long): Option[DecodedRecord] =
    queues
      .get(key)
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.maxOffset)
      .flatMap(queue => recordAt(queue.commitLogOffset(queueOffset)))

  /** Messages of a topic by key, newest first. */
  def query(query: KeyQuery): LogSlices = lookup.query(query)

  /** Whether a queue has a message from `start` to before `end` that the filter lets through. */
  def hasMatch(key: QueueKey, start: Long, end: Long, filter: TagFilter): Boolean =
    queues.get(key).exists { queue =>
      var found = false
      queue.scan(Math.max(start, queue.minOffset), Math.min(end, queue.maxOffset)) {
        (_, _, _, tagsCode) =>
          found = filter.matches(tagsCode)
          !found
      }
      found
    }

  def minOffset(key: QueueKey): Long = queues.get(key).fold(0L)(_.minOffset)

  def maxOffset(key: QueueKey): Long = queues.get(key).fold(0L)(_.maxOffset)

  /** When a message was stored, or nothing if the queue has no such message. */
  def storeTimestamp(key: QueueKey, queueOffset: Long): Option[Long] =
    queues.get(key)
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.maxOffset)
      .map(queue => log.storeTimestamp(queue.commitLogOffset(queueOffset)))

  /** The offset a timestamp means. Store times never fall within a queue, hence a binary search. */
  def offsetByTime(key: QueueKey, timestamp: Long, boundary: TimeBoundary): Long =
    queues.get(key).fold(0L) { queue =>
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
    queues.removeTopic(topic)
  }

  /** Periodic: records up to where everything is on disk, so that recovery can start there. */
  def checkpoint(): Unit = if (!closed) upkeep.checkpoint()

  /** Periodic: gives up messages that are too old or too many; gives the number of files. */
  def retire(): Int = if (closed) 0 else upkeep.retire()

  /** Periodic: looks whether the disk has room for further messages. */
  def checkDisk(): Unit = upkeep.checkDisk()

  /** Without background threads: flushes and answers whoever waits. */
  def flush(): Unit = groupCommit.runOnce()

  /** Flushes and refuses further appends. */
  def close(): Unit = {
    closed = true
    // An append that got past the check still holds the lock; it is flushed below.
    appendLock.synchronized(())
    groupCommit.close()
    try upkeep.close()
    catch {
      case error: IOException =>
        logger.error("no checkpoint at the stop; the next start takes longer", error)
    }
  }
}

object MessageStore {
  private val logger = LoggerFactory.getLogger(classOf[MessageStore])

  /** Where the records of one append went. */
  private final case class Placed(queue: ConsumeQueue, first: Long, offsets: Array[Long]) {
    def end: Long = first + offsets.length
  }
}
