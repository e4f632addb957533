package rmqordered.store

import java.io.IOException

import org.slf4j.LoggerFactory

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.dedup._
import rmqordered.model.{MessageFilter, Names, QueueKey}
import rmqordered.protocol.{DecodedRecord, RecordContent, RecordEnvelope}
import rmqordered.util.{Clock, WorkTurn}

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
 *   called after new messages of a queue became readable, by the thread that made them so; told how
 *   many
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
    onArrival: (QueueKey, Int) => Unit,
    background: Boolean = true,
    indexShape: IndexShape = KeyIndex.DefaultShape,
    followers: Seq[LogFollower] = Nil
) {
  import MessageStore._

  private val appendLock = new Object
  private val streams = new SendStreams(directory.sendStreams, config(Settings.maxSendStreams))
  private val allFollowers = followers :+ new StreamFollower(streams)
  private val parts = new StoreOpening(
    directory,
    config,
    topics,
    StoreUpkeep.readCheckpoint(directory),
    indexShape,
    allFollowers
  ).open()
  import parts.{index, log, queues}

  private val faultsFound = new StoreFaults
  private val seals = new SealCheck(log, parts.lost, faultsFound)
  private val logScrub = new LogScrub(log, seals)
  private val reader = new MessageReader(log, queues, seals, faultsFound)
  private val rebuild = new QueueRebuild(log, queues, topics, faultsFound)
  private val lookup = new MessageLookup(log, queues, index, seals)
  private val groupCommit =
    new GroupCommit(
      log,
      config(Settings.flushDiskType),
      config(Settings.flushIntervalMs),
      background,
      parts.durableTo
    )
  private val ahead = new ClaimAhead(Seq(log, index), background)
  private val placing = new Placing(parts, ahead, clock, config(Settings.messageIndexEnable))
  private val upkeep =
    new StoreUpkeep(
      directory,
      config,
      clock,
      parts,
      groupCommit,
      appendLock,
      () => placing.lastStoreTimestamp,
      allFollowers
    )
  @volatile private var closed = false
  forgetLostStreams()
  // Before the first append: from now on it is known what was on disk at least.
  upkeep.checkpoint()
  upkeep.checkDisk()

  /** One past the last byte of the commit log. */
  def logEnd: Long = log.maxOffset

  /** The first byte of the commit log that is still kept. */
  def logStart: Long = log.minOffset

  /** The newest store time given out. */
  def lastStoreTime: Long = appendLock.synchronized(placing.lastStoreTimestamp)

  /** Whether there was no store before this one. */
  def isNew: Boolean = parts.isNew

  /** How many records recovery had to read. */
  def scannedRecords: Long = parts.scannedRecords

  /**
   * Appends one message, or a batch that lands in consecutive offsets of one queue, all or none.
   * `done` may be called by this thread or another.
   */
  def append(envelope: RecordEnvelope, contents: Vector[RecordContent])(
      done: AppendOutcome => Unit
  ): Unit =
    guarded(envelope, contents, done) {
      val key = QueueKey(envelope.topic, envelope.queueId)
      val hashes = placing.keyHashes(envelope, contents)
      whileTopicExists(envelope.topic)(placing.place(envelope, contents, hashes)) match {
        case None => done(AppendOutcome.NoTopic(envelope.topic))
        case Some(placed) =>
          whenReadable(key, placed.queue, placed.end, contents.length)(
            done(AppendOutcome.Stored(placed.first, placed.offsets)),
            done
          )
      }
    }

  /**
   * Appends stamped messages, or the part of them that is not there yet. The stamps are judged
   * under the append lock: of two connections that send the same, one lands. A repeat is answered
   * when the original is durable, not before.
   *
   * A stamp that came once for all of them goes into the last record. That is what the limits are
   * checked with: with fewer messages to append it only becomes shorter.
   */
  def appendStamped(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      request: StampedRequest
  )(done: StampedOutcome => Unit): Unit = {
    def failed(outcome: AppendOutcome): Unit = done(StampedOutcome.Failed(outcome))
    val whole = request.toStore(contents, 0)
    guarded(envelope, whole, failed) {
      val key = QueueKey(envelope.topic, envelope.queueId)
      val hashes = placing.keyHashes(envelope, contents)
      val judged = whileTopicExists(envelope.topic) {
        streams.judge(key, request)(lookup.stampAt(key, _)) match {
          case refused: StampVerdict.Refused => Left(refused)
          case StampVerdict.Duplicate(last) =>
            Right((queues.getOrCreate(key), last, Array.empty[Long]))
          case StampVerdict.Append(landed) =>
            val rest = if (landed == 0) whole else request.toStore(contents, landed)
            val placed = placing.place(envelope, rest, hashes.drop(landed))
            val last = streams.landed(key, request, landed, placed.first, placed.offsets)
            Right((placed.queue, last, placed.offsets))
        }
      }
      judged match {
        case None => failed(AppendOutcome.NoTopic(envelope.topic))
        case Some(Left(refused)) => done(StampedOutcome.Refused(refused))
        case Some(Right((queue, last, appended))) =>
          whenReadable(key, queue, last.queueOffset + 1, appended.length)(
            done(StampedOutcome.of(queue, request, last, appended)),
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
    val problem = AppendOutcome
      .impossible(envelope, contents, log.maxAppendBytes)
      .orElse(unavailable.map(AppendOutcome.Unavailable))
    problem match {
      case Some(outcome) => failed(outcome)
      case None =>
        try action
        catch {
          case error: IOException =>
            logger.warn("an append was refused topic={}", envelope.topic, error)
            failed(AppendOutcome.Unavailable(s"the commit log cannot grow: ${error.getMessage}"))
        }
    }
  }

  /**
   * Under the append lock, which a deletion takes as well: behind a tombstone nothing of the
   * deleted topic may follow, though its sender has looked the topic up before.
   */
  private def whileTopicExists[T](topic: String)(action: => T): Option[T] =
    appendLock.synchronized {
      Option.when(topics.contains(topic) && Names.topicProblem(topic).isEmpty)(action)
    }

  /** Whether an append would be tried at all, as far as is known. */
  def isAccepting: Boolean = unavailable.isEmpty

  private def unavailable: Option[String] =
    if (closed) Some("the broker is stopping")
    else upkeep.refusal.orElse(groupCommit.failed.map(unflushed(_).reason))

  private def unflushed(error: Throwable): AppendOutcome.Unavailable =
    AppendOutcome.Unavailable(s"the commit log cannot be flushed: ${error.getMessage}")

  private def whenReadable(key: QueueKey, queue: ConsumeQueue, end: Long, count: Int)(
      done: => Unit,
      failed: AppendOutcome => Unit
  ): Unit = groupCommit.whenDurable {
    case Some(error) => failed(unflushed(error))
    case None =>
      queue.publish(end)
      onArrival(key, count)
      done
  }

  /** Reads messages of a queue until the turn is over. An unknown queue is an empty one. */
  def read(
      key: QueueKey,
      request: ReadRequest,
      turn: WorkTurn = WorkTurn.endless()
  ): ReadResult = reader.read(key, request, turn)

  /** The message at a place in the commit log, if one that can be read starts exactly there. */
  def messageAt(commitLogOffset: Long): Option[LogSlices] = lookup.messageAt(commitLogOffset)

  /** The same, taken apart. */
  def recordAt(commitLogOffset: Long): Option[DecodedRecord] = lookup.recordAt(commitLogOffset)

  /**
   * One message of a queue, taken apart; nothing when the queue does not hold it.
   *
   * @throws java.io.IOException
   *   when it should be there and is not
   */
  def record(key: QueueKey, queueOffset: Long): Option[DecodedRecord] =
    reader.record(key, queueOffset)

  /** Where a message of a queue is in the log, be it readable yet or not. */
  def commitLogOffset(key: QueueKey, queueOffset: Long): Option[Long] = appendLock.synchronized {
    queues
      .get(key)
      .filter(queue => queueOffset >= queue.minOffset && queueOffset < queue.nextOffset)
      .map(_.commitLogOffset(queueOffset))
  }

  /** Takes a search one turn further; the messages, newest first, when it has come to its end. */
  def advance(search: KeySearch, turn: WorkTurn): Option[LogSlices] = lookup.advance(search, turn)

  /** Looks for a message from `start` to before `end` that the filter lets through. */
  def search(
      key: QueueKey,
      start: Long,
      end: Long,
      filter: MessageFilter,
      turn: WorkTurn
  ): QueueSearch = reader.search(key, start, end, filter, turn)

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
    queues.removeTopic(topic)
  }

  /** A stream is remembered as long as its last message: not beyond its topic or retention. */
  private def forgetLostStreams(): Unit = appendLock.synchronized {
    streams.retain((topic, at) => at >= log.minOffset && topics.isAlive(topic, at))
  }

  /** Periodic: records up to where everything is on disk, so that recovery can start there. */
  def checkpoint(): Unit = if (!closed) upkeep.checkpoint()

  /**
   * Periodic: gives up messages that are too old or too many, but none from `keepFrom` on in the
   * log; gives the number of files.
   */
  def retire(keepFrom: Long = Long.MaxValue): Int =
    if (closed) 0
    else {
      val files = upkeep.retire(keepFrom)
      if (files > 0) {
        forgetLostStreams()
        seals.forget(log.minOffset)
      }
      files
    }

  /** What was found wrong on the disk since the start. */
  def faults: StoreFaults = faultsFound

  /** Periodic: rebuilds the queues that readers found damaged. */
  def rebuildQueues(): Unit = if (!closed) rebuild.run()

  /** Periodic: compares so many further bytes of the log with their seals. */
  def scrub(maxBytes: Int): Unit = if (!closed) logScrub.run(maxBytes)

  /** Up to where the scrub has come in its round. */
  def scrubbedTo: Long = logScrub.position

  /** Makes everything appended so far durable, whatever the mode; false if that is impossible. */
  def persist(): Boolean = groupCommit.flushNow().isEmpty

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
    ahead.close()
    try upkeep.close()
    catch {
      case error: IOException =>
        logger.error("no checkpoint at the stop; the next start takes longer", error)
    }
  }
}

object MessageStore {
  private val logger = LoggerFactory.getLogger(classOf[MessageStore])
}
