package rmqordered.dedup

import java.io.IOException

import org.slf4j.LoggerFactory

import rmqordered.model.{Names, QueueKey}
import rmqordered.protocol.DecodedRecord
import rmqordered.util.SmallFile

/** Whose messages, into which queue: what sequences are counted in. */
final case class StreamKey(queue: QueueKey, sink: String, partition: Long)

/**
 * The last message of a stream that landed.
 *
 * @param runStart
 *   the lowest sequence from which on sequences and queue offsets rise together, so that the
 *   offsets of those messages are known
 */
final case class LastStamp(
    batch: Long,
    sequence: Long,
    digest: Long,
    queueOffset: Long,
    commitLogOffset: Long,
    runStart: Long
) {

  /** Where a message of the same batch is in the queue, if that is known. */
  def offsetOf(wanted: Long): Option[Long] =
    Option.when(wanted >= runStart && wanted <= sequence)(queueOffset - (sequence - wanted))
}

/** What is to be done with a stamped request. */
sealed trait StampVerdict

object StampVerdict {

  /** Append all but the first `landed` messages, which are there already. */
  final case class Append(landed: Int) extends StampVerdict

  /** Everything is there already. */
  final case class Duplicate(last: LastStamp) extends StampVerdict

  sealed trait Refused extends StampVerdict

  /** Nothing is known of the stream, and the request does not begin it. */
  final case class StreamUnknown(found: Long) extends Refused

  /** Messages are missing before the first one of the request. */
  final case class SequenceGap(expected: Long, found: Long, last: LastStamp) extends Refused

  /** The request repeats a message, and it is not the one that `landed`. */
  final case class ReplayDiverged(found: Long, landed: LastStamp) extends Refused

  /** A later batch has landed. */
  final case class StaleBatch(found: Long, last: LastStamp) extends Refused

  /** A new stream, and no room to remember it. */
  final case class TooManyStreams(limit: Int) extends Refused
}

/**
 * The last stamp of every stream: what makes a repeated send harmless.
 *
 * Invariant: for every stream with a message in the log there is exactly its last stamp; so within
 * a batch sequences 0, 1, 2, ... land in this order, each once.
 *
 * Memory: about 300 bytes per stream, `capacity` streams at most. A stream is never forgotten while
 * its last message exists; beyond the capacity new streams are refused instead. What recovery finds
 * in the log is remembered in any case.
 *
 * Thread-safety: `judge`, `landed`, `forget`, `retain` and `freeze` under the store's append lock;
 * `last` by any thread.
 *
 * After a crash: the snapshot, if there is a good one, holds all records below `validTo`; recovery
 * shows the others to `observe`, in the order of the log. Showing more does no harm.
 */
final class SendStreams(file: SmallFile, capacity: Int) {
  import SendStreams._

  private val streams = new StreamTable
  private var validToOffset = load()

  /** Records from this commit log offset on must be shown to `observe`. */
  def validTo: Long = validToOffset

  private def load(): Long = StreamSnapshot.read(file) match {
    case Right(snapshot) =>
      snapshot.streams.foreach { case (key, last) => streams.put(key, last) }
      snapshot.validTo
    case Left(problem) =>
      logger.warn("the snapshot of send streams is not used file={} problem={}", file.name, problem)
      0L
  }

  /**
   * Forgets everything: the log turned out to be shorter than the snapshot. Show all records. The
   * snapshot goes at once: the log may grow beyond it again, and then nobody would notice.
   *
   * @throws java.io.IOException
   *   when it cannot be replaced
   */
  def reset(): Unit = {
    file.replace(StreamSnapshot.encode(StreamSnapshot.empty))
    streams.clear()
    validToOffset = 0L
  }

  /** Recovery: a record of the log, in order. */
  def observe(record: DecodedRecord): Unit =
    if (record.position.commitLogOffset >= validToOffset && counts(record.envelope.topic))
      RunStamp.of(record).foreach { run =>
        val queue = QueueKey(record.envelope.topic, record.envelope.queueId)
        remember(queue, run, record.position.queueOffset, record.position.commitLogOffset)
      }

  /** Recovery and retention: forgets streams whose last message is not there any more. */
  def retain(isAlive: (String, Long) => Boolean): Unit = {
    streams.removeIf((key, last) => !isAlive(key.queue.topic, last.commitLogOffset))
  }

  def forget(topic: String): Unit = streams.removeIf((key, _) => key.queue.topic == topic)

  def last(key: StreamKey): Option[LastStamp] = streams.get(key)

  def size: Int = streams.size

  /**
   * Says what to do with a request. Changes nothing.
   *
   * @param stampAt
   *   the stamp of the message at an offset of the queue, if it carries one
   */
  def judge(queue: QueueKey, request: StampedRequest)(
      stampAt: Long => Option[SendStamp]
  ): StampVerdict = {
    import StampVerdict._
    val first = request.firstSequence
    last(StreamKey(queue, request.sink, request.partition)) match {
      case None if first != 0 => StreamUnknown(first)
      case None if streams.size >= capacity => TooManyStreams(capacity)
      case None => Append(0)
      case Some(last) if request.batch < last.batch => StaleBatch(request.batch, last)
      case Some(last) if request.batch > last.batch =>
        if (first == 0) Append(0) else SequenceGap(0, first, last)
      case Some(last) if first > last.sequence + 1 => SequenceGap(last.sequence + 1, first, last)
      case Some(last) =>
        val landed = newestRepeated(request, last, stampAt)
        landed.filter(one => request.digestOf(one.sequence) != one.digest) match {
          case Some(other) => ReplayDiverged(request.digestOf(other.sequence), other)
          case None if request.lastSequence <= last.sequence => Duplicate(last)
          case None => Append((last.sequence + 1 - first).toInt)
        }
    }
  }

  /**
   * The newest landed message that a request of the same batch repeats, if it is known or can be
   * looked up. A digest covers all messages before, so one comparison is enough.
   */
  private def newestRepeated(
      request: StampedRequest,
      last: LastStamp,
      stampAt: Long => Option[SendStamp]
  ): Option[LastStamp] =
    if (request.contains(last.sequence)) Some(last)
    else if (request.firstSequence > last.sequence) None
    else
      for {
        queueOffset <- last.offsetOf(request.lastSequence)
        stamp <- stampAt(queueOffset)
        if stamp.sink == request.sink && stamp.partition == request.partition
        if stamp.batch == request.batch && stamp.sequence == request.lastSequence
      } yield last.copy(
        sequence = stamp.sequence,
        digest = stamp.digest,
        queueOffset = queueOffset,
        runStart = Math.min(last.runStart, stamp.sequence)
      )

  /**
   * The messages of a request, all but the first `skipped`, were appended in consecutive places.
   *
   * @return
   *   the stream's last stamp now
   */
  def landed(
      queue: QueueKey,
      request: StampedRequest,
      skipped: Int,
      firstQueueOffset: Long,
      commitLogOffsets: Array[Long]
  ): LastStamp = {
    val lastQueueOffset = firstQueueOffset + commitLogOffsets.length - 1
    remember(queue, request.run(skipped), lastQueueOffset, commitLogOffsets.last)
  }

  /** Messages of a stream landed together; the places are those of the last one. */
  private def remember(
      queue: QueueKey,
      run: RunStamp,
      queueOffset: Long,
      commitLogOffset: Long
  ): LastStamp = {
    val stamp = run.last
    val key = StreamKey(queue, stamp.sink, stamp.partition)
    val runStart = last(key)
      .filter { before =>
        before.batch == stamp.batch && before.sequence + 1 == run.firstSequence &&
        before.queueOffset + run.count == queueOffset
      }
      .fold(run.firstSequence)(_.runStart)
    val now =
      LastStamp(stamp.batch, stamp.sequence, stamp.digest, queueOffset, commitLogOffset, runStart)
    streams.put(key, now)
    now
  }

  /**
   * Everything remembered now, to be written with `save`. Under the append lock, and quick: the
   * result makes the snapshot later, once, before the next `freeze`.
   *
   * @param validTo
   *   the end of the log
   */
  def freeze(validTo: Long): () => StreamSnapshot = {
    val picture = streams.freeze()
    () => StreamSnapshot(validTo, picture())
  }

  /**
   * Replaces the snapshot. The log must be on disk up to the snapshot's `validTo` before: a
   * snapshot must not know more than the log. If it cannot be written, the next start reads more of
   * the log.
   */
  def save(frozen: () => StreamSnapshot): Unit =
    try file.replace(StreamSnapshot.encode(frozen()))
    catch {
      case error: IOException =>
        logger.warn("the send streams could not be saved file={}", file.name, error)
    }
}

object SendStreams {
  private val logger = LoggerFactory.getLogger(classOf[SendStreams])

  /**
   * Whether stamps mean anything in a topic. What consumers give back, and what waits for its time,
   * are copies that keep the properties of the original, its stamp among them.
   */
  def counts(topic: String): Boolean =
    !topic.startsWith(Names.RetryPrefix) && !topic.startsWith(Names.DlqPrefix) &&
      !Names.isSystemTopic(topic)
}
