package rmqordered.store

import java.io.IOException
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.dedup._
import rmqordered.model.{MessageFilter, QueueKey}
import rmqordered.protocol.{
  DecodedRecord,
  RecordContent,
  RecordEnvelope,
  RecordReader,
  StoredRecord
}
import rmqordered.util.Clock

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
  private val streams = new SendStreams(directory.sendStreams, config(Settings.maxSendStreams))
  private val log = recover()
  private val reader = new MessageReader(log, queues)
  private val groupCommit =
    new GroupCommit(log, config(Settings.flushDiskType), config(Settings.flushIntervalMs))
  @volatile private var closed = false

  private def recover(): CommitLog = {
    // The queues are an index of the log and are rebuilt from it: so they match it exactly.
    deleteTree(directory.consumeQueues)
    val segmentBytes = config(Settings.mappedFileSizeCommitLog)
    val recovered = new Recovery(directory.commitLog, segmentBytes).run { record =>
      val key = QueueKey(record.envelope.topic, record.envelope.queueId)
      ensureTopicsKnown()
      if (topics.isAlive(key.topic, record.position.commitLogOffset)) {
        val queue = queueOf(key)
        ensureDense(key, queue.nextOffset, record.position.queueOffset)
        queue.ensureRoom(1)
        queue.append(record.position.commitLogOffset, record.size, record.content.tagsCode)
        queue.publish(queue.nextOffset)
        streams.observe(record)
      }
    }
    topics.lowerTombstones(recovered.end)
    recoverStreams(recovered.end)
    lastStoreTimestamp = recovered.lastStoreTimestamp
    new CommitLog(directory.commitLog, segmentBytes, recovered)
  }

  private def recoverStreams(logEnd: Long): Unit = {
    if (streams.validTo > logEnd) { // the log lost its end after the snapshot was made
      streams.reset()
      val again = new Recovery(directory.commitLog, config(Settings.mappedFileSizeCommitLog))
      val _ = again.run(streams.observe)
    }
    streams.retain(topics.isAlive)
  }

  private def ensureTopicsKnown(): Unit =
    if (topics.isEmpty)
      throw new StoreError(
        s"The commit log in ${directory.path} holds messages but its topic table is missing; " +
          "restore config/topics.json."
      )

  private def ensureDense(key: QueueKey, expected: Long, found: Long): Unit =
    if (expected != found)
      throw new StoreError(
        s"The commit log in ${directory.path} is damaged: queue $key goes on at offset $found " +
          s"where $expected is expected."
      )

  /**
   * Appends one message, or a batch that lands in consecutive offsets of one queue, all or none.
   * The topic must have been checked. `done` may be called by this thread or another.
   */
  def append(envelope: RecordEnvelope, contents: Vector[RecordContent])(
      done: AppendOutcome => Unit
  ): Unit =
    guarded(envelope, contents, done) {
      val placed = appendLock.synchronized(place(envelope, contents))
      val key = QueueKey(envelope.topic, envelope.queueId)
      whenReadable(key, placed.queue, placed.end)(
        done(AppendOutcome.Stored(placed.first, placed.offsets)),
        done
      )
    }

  /**
   * Appends stamped messages, or the part of them that is not there yet. The stamps are judged
   * under the append lock: of two connections that send the same, one lands. A repeat is answered
   * when the original is durable, not before.
   */
  def appendStamped(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      request: StampedRequest
  )(done: StampedOutcome => Unit): Unit = {
    def failed(outcome: AppendOutcome): Unit = done(StampedOutcome.Failed(outcome))
    guarded(envelope, contents, failed) {
      val key = QueueKey(envelope.topic, envelope.queueId)
      val judged = appendLock.synchronized {
        streams.judge(key, request) match {
          case refused: StampVerdict.Refused => Left(refused)
          case StampVerdict.Duplicate(last) => Right((queueOf(key), last, contents.length))
          case StampVerdict.Append(landed) =>
            val placed = place(envelope, contents.drop(landed))
            val last = streams.landed(key, request, landed, placed.first, placed.offsets)
            Right((placed.queue, last, landed))
        }
      }
      judged match {
        case Left(refused) => done(StampedOutcome.Refused(refused))
        case Right((queue, last, landed)) =>
          whenReadable(key, queue, last.queueOffset + 1)(
            done(StampedOutcome.of(queue, request, last, landed)),
            failed
          )
      }
    }
  }

  /** A stream's last stamp, once it is durable: whoever asks may rely on it. */
  def lastStamp(key: StreamKey)(done: Either[AppendOutcome.Unavailable, Option[LastStamp]] => Unit)
      : Unit = {
    val last = appendLock.synchronized(streams.last(key))
    groupCommit.whenDurable {
      case Some(error) => done(Left(unflushed(error)))
      case None => done(Right(last))
    }
  }

  private def guarded(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      failed: AppendOutcome => Unit
  )(action: => Unit): Unit = {
    val bytes = contents.iterator.map(StoredRecord.size(envelope, _).toLong).sum
    if (bytes > log.maxAppendBytes) failed(AppendOutcome.TooLarge(bytes, log.maxAppendBytes))
    else
      unavailable match {
        case Some(reason) => failed(AppendOutcome.Unavailable(reason))
        case None =>
          try action
          catch {
            case error: IOException =>
              logger.warn("an append was refused topic={}", envelope.topic, error)
              failed(AppendOutcome.Unavailable(s"the commit log cannot grow: ${error.getMessage}"))
          }
      }
  }

  private def unavailable: Option[String] =
    if (closed) Some("the broker is stopping")
    else groupCommit.failed.map(unflushed(_).reason)

  private def unflushed(error: Throwable): AppendOutcome.Unavailable =
    AppendOutcome.Unavailable(s"the commit log cannot be flushed: ${error.getMessage}")

  /** Puts records at the end of the log and of their queue. Under the append lock. */
  private def place(envelope: RecordEnvelope, contents: Vector[RecordContent]): Placed = {
    val queue = queueOf(QueueKey(envelope.topic, envelope.queueId))
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
    Placed(queue, first, appended.offsets)
  }

  private def whenReadable(key: QueueKey, queue: ConsumeQueue, end: Long)(
      done: => Unit,
      failed: AppendOutcome => Unit
  ): Unit = groupCommit.whenDurable {
    case Some(error) => failed(unflushed(error))
    case None =>
      queue.publish(end)
      onArrival(key)
      done
  }

  /** Reads messages of a queue. An unknown queue is an empty one. */
  def read(key: QueueKey, request: ReadRequest): ReadResult = reader.read(key, request)

  /** Whether a queue has a message from `start` to before `end` that the filter lets through. */
  def hasMatch(key: QueueKey, start: Long, end: Long, filter: MessageFilter): Boolean =
    reader.hasMatch(key, start, end, filter)

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

  def minOffset(key: QueueKey): Long = reader.minOffset(key)

  def maxOffset(key: QueueKey): Long = reader.maxOffset(key)

  /** When a message was stored, or nothing if the queue has no such message. */
  def storeTimestamp(key: QueueKey, queueOffset: Long): Option[Long] =
    reader.storeTimestamp(key, queueOffset)

  /** The offset a timestamp means. */
  def offsetByTime(key: QueueKey, timestamp: Long, boundary: TimeBoundary): Long =
    reader.offsetByTime(key, timestamp, boundary)

  /** Deletes a topic and its queues; its records stay in the log, dead. */
  def deleteTopic(topic: String): Unit = appendLock.synchronized {
    topics.remove(topic, log.maxOffset)
    streams.forget(topic)
    queues.keySet().removeIf(_.topic == topic)
    deleteTree(directory.consumeQueues.resolve(topic))
  }

  /** Flushes and refuses further appends. */
  def close(): Unit = {
    closed = true
    // An append that got past the check still holds the lock; it is flushed below.
    appendLock.synchronized(())
    groupCommit.close()
    // Only after everything was flushed: a snapshot must not know more than the log.
    if (groupCommit.failed.isEmpty) streams.save(streams.freeze(log.maxOffset))
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

  /** Where the records of one append went. */
  private final case class Placed(queue: ConsumeQueue, first: Long, offsets: Array[Long]) {
    def end: Long = first + offsets.length
  }

  private val logger = LoggerFactory.getLogger(classOf[MessageStore])

  private def deleteTree(root: Path): Unit =
    if (Files.exists(root)) {
      val paths = Files.walk(root)
      try
        paths.sorted(java.util.Comparator.reverseOrder[Path]()).forEach(path => Files.delete(path))
      finally paths.close()
    }
}
