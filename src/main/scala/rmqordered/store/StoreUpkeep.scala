package rmqordered.store

import java.io.IOException

import org.slf4j.LoggerFactory

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.util.{Clock, Json}

/**
 * What a store needs from time to time: checkpoints, retention, a look at the disk's free space. No
 * threads and no timer of its own.
 *
 * Retention takes whole segments, oldest first, never the one being written, and none beyond the
 * last checkpoint but one: so either version of the checkpoint file knows where every queue ended.
 * Each deletion is durable before the next, hence a crash leaves no gap.
 *
 * A checkpoint that could not be forced is the last one until a restart: after a failed flush
 * nobody knows what is on disk. Appends go on; a crash then costs a longer recovery.
 *
 * Thread-safe; `checkpoint` and `retire` take turns.
 *
 * @param storeTimestamp
 *   the newest store time given out, read under the append lock
 */
final class StoreUpkeep(
    directory: DataDirectory,
    config: BrokerConfig,
    clock: Clock,
    parts: OpenedStore,
    groupCommit: GroupCommit,
    appendLock: Object,
    storeTimestamp: () => Long,
    followers: Seq[LogFollower]
) {
  import StoreUpkeep._
  import parts.{index, log, queues}

  private val file = directory.table(CheckpointTable)
  private val files = directory.files
  private val reservedMs = config(Settings.fileReservedTime).toLong * MillisPerHour
  private val maxBytes = config(Settings.maxCommitLogBytes)
  private val minFreeBytes = config(Settings.minFreeDiskBytes)
  private var last: Option[Checkpoint] = None
  private var beforeLast: Option[Checkpoint] = None
  private var isBroken = false
  private var isClosed = false
  @volatile private var lowSpace: Option[String] = None

  /** Why the disk takes no more messages, if that is so. */
  def refusal: Option[String] = lowSpace

  /** Looks whether the disk has room, and remembers. */
  def checkDisk(): Unit = {
    val usable = files.usableBytes(directory.path)
    val isLow = usable < minFreeBytes
    if (isLow != lowSpace.isDefined) {
      if (isLow) logger.warn(
        "the disk is nearly full, sends are refused usable={} minimum={}",
        usable,
        minFreeBytes
      )
      else logger.info("the disk has room again, sends are accepted usable={}", usable)
    }
    lowSpace = Option.when(isLow)(
      s"the disk is nearly full: $usable bytes free, at least $minFreeBytes needed"
    )
  }

  /**
   * Records up to where everything is on disk, unless that is known already.
   *
   * @throws java.io.IOException
   *   when the file cannot be written
   */
  def checkpoint(): Unit = synchronized {
    val (now, savers) = snapshot()
    if (!last.contains(now) && !isBroken) record(now, savers)
  }

  private def snapshot(): (Checkpoint, Seq[() => Unit]) = appendLock.synchronized {
    val now = Checkpoint(
      log.maxOffset,
      storeTimestamp(),
      config(Settings.mappedFileSizeConsumeQueue),
      index.position,
      queues.positions,
      Some(parts.sealKey)
    )
    // What has not grown is not pictured again: followers may be large.
    val isNew = !last.exists(_.logOffset == now.logOffset)
    (now, if (isNew) followers.map(_.snapshot(now.logOffset)) else Nil)
  }

  private def record(now: Checkpoint, savers: Seq[() => Unit]): Unit =
    if (groupCommit.flushNow().isEmpty) {
      try {
        queues.flush(now.queues)
        index.flush()
      } catch {
        case error: Throwable =>
          isBroken = true
          logger.error("the queues cannot be flushed; no checkpoints until a restart", error)
          throw error
      }
      savers.foreach(save => save())
      file.replace(Json.bytes(now.encode))
      beforeLast = last
      last = Some(now)
    }

  /** The last checkpoint; from here on the files are somebody else's. */
  def close(): Unit = synchronized {
    isClosed = true
    checkpoint()
  }

  /** Gives up segments below an offset that are too old or too many; gives how many. */
  def retire(keepFrom: Long): Int = synchronized {
    val wanted =
      if (isClosed) Vector.empty else outdated().takeWhile(_.endOffset <= keepFrom)
    if (wanted.nonEmpty && wanted.last.endOffset > safeOffset) renewCheckpoints()
    val safe = wanted.takeWhile(_.endOffset <= safeOffset)
    safe.lastOption.foreach(newest => giveUp(newest.endOffset))
    safe.length
  }

  private def safeOffset: Long = beforeLast.fold(0L)(_.logOffset)

  // With a full disk this may fail; what was safe before is still safe, and frees some space.
  private def renewCheckpoints(): Unit =
    try
      (0 until 2).foreach { _ =>
        val (now, savers) = snapshot()
        if (!isBroken) record(now, savers)
      }
    catch {
      case error: IOException =>
        logger.warn("the checkpoint cannot be written file={}", file.name, error)
    }

  private def outdated(): Vector[MappedSegment] = {
    val horizon = clock.wallMillis() - reservedMs
    var total = log.sizeBytes
    log.retirable.takeWhile { case (segment, newest) =>
      val isTooOld = newest < horizon
      val isTooMuch = maxBytes > 0 && total > maxBytes
      total -= segment.capacity
      isTooOld || isTooMuch
    }.map(_._1)
  }

  private def giveUp(below: Long): Unit = {
    val (logFiles, queueFiles, indexFiles) = appendLock.synchronized {
      // The queues first: a reader must not be pointed at what is gone.
      val queueFiles = queues.retire(below)
      (log.retire(below), queueFiles, index.retire(below))
    }
    logger.info("retention files={} minOffset={}", logFiles.length, below)
    logFiles.foreach { segment =>
      files.delete(segment.file)
      files.forceFolder(directory.commitLog)
    }
    queueFiles.foreach(segment => files.delete(segment.file))
    indexFiles.foreach(files.delete)
  }
}

object StoreUpkeep {
  private val logger = LoggerFactory.getLogger(classOf[StoreUpkeep])
  private val MillisPerHour = 3600000L

  val CheckpointTable = "checkpoint"

  /** The last checkpoint, if there was one. */
  def readCheckpoint(directory: DataDirectory): Option[Checkpoint] =
    Json.read(directory.table(CheckpointTable)).map(Checkpoint.decode)
}
