package rmqordered.store

import java.security.SecureRandom

import org.slf4j.LoggerFactory

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.model.QueueKey
import rmqordered.protocol.DecodedRecord
import rmqordered.util.Json

/**
 * The parts of a store, in agreement with each other.
 *
 * @param durableTo
 *   up to where the log is known to be on disk
 * @param sealKey
 *   what marks the seals of this log
 * @param lost
 *   what an operator has given up
 */
final case class OpenedStore(
    log: CommitLog,
    queues: QueueTable,
    index: KeyIndex,
    storeTimestamp: Long,
    scannedRecords: Long,
    isNew: Boolean,
    durableTo: Long,
    sealKey: Int,
    lost: Vector[LostRange]
)

/**
 * Opens the commit log, the queues and the key index so that they agree: with a good checkpoint the
 * queues and the index go on with their files and only the log behind the checkpoint is read;
 * otherwise both are made anew from the whole log.
 *
 * The log decides what exists. The checkpoint alone knows the end of a queue whose messages
 * retention has taken, so a log that does not start at 0 is not opened without one.
 */
final class StoreOpening(
    directory: DataDirectory,
    config: BrokerConfig,
    topics: TopicTable,
    checkpoint: Option[Checkpoint],
    indexShape: IndexShape,
    followers: Seq[LogFollower]
) {
  import StoreOpening._

  private val files = directory.files
  private val queueFileBytes = config(Settings.mappedFileSizeConsumeQueue)
  private val isIndexed = config(Settings.messageIndexEnable)
  private val segmentBytes = config(Settings.mappedFileSizeCommitLog)
  private val queues = new QueueTable(directory, queueFileBytes)
  private val index = new KeyIndex(files, directory.index, indexShape)
  private val lost = LostRanges.read(directory)
  private val recovery =
    new Recovery(
      files,
      directory.commitLog,
      segmentBytes,
      checkpoint.map(_.logOffset),
      checkpoint.flatMap(_.sealKey),
      lost
    )
  private val logMin = recovery.minOffset.getOrElse(0L)
  // Queues that the checkpoint knows and that still belong to a living topic.
  private val known: Map[QueueKey, QueuePosition] = checkpoint.iterator
    .flatMap(c => c.queues.filter(p => topics.isAlive(p.key.topic, c.logOffset - 1)))
    .map(position => position.key -> position)
    .toMap

  def open(): OpenedStore = {
    files.createFolder(directory.commitLog)
    if (checkpoint.isEmpty && logMin > 0)
      throw new StoreError(
        s"The commit log in ${directory.path} begins at $logMin but the store's checkpoint is " +
          "missing; restore config/checkpoint.json."
      )
    checkpoint.foreach(_.queues.foreach(position => ensureTopicsKnown(position.key)))
    val (from, isAnew) = checkpoint.filter(canResume) match {
      case Some(found) => (found.logOffset, false)
      case None =>
        startAnew()
        (logMin, true)
    }
    // Followers may know less than the queues; they see records that the queues have already.
    val scanFrom = Math.max(logMin, (from +: followers.map(_.durableTo)).min)
    val scanned = recovery.run(scanFrom) { record =>
      if (isAlive(record)) {
        if (record.position.commitLogOffset >= from) add(record, isAnew)
        followers.filter(record.position.commitLogOffset >= _.durableTo).foreach(_.replay(record))
      }
    }
    if (isAnew) keepLostEnds()
    val recovered = catchUp(scanned)
    queues.removeStrangers()
    topics.lowerTombstones(recovered.end)
    val storeTimestamp =
      Math.max(recovered.lastStoreTimestamp, checkpoint.fold(0L)(_.storeTimestamp))
    val durableTo = checkpoint.fold(logMin)(_.logOffset)
    val sealKey = checkpoint.flatMap(_.sealKey).getOrElse(new SecureRandom().nextInt())
    val log =
      new CommitLog(files, directory.commitLog, segmentBytes, recovered, durableTo, sealKey)
    OpenedStore(
      log,
      queues,
      index,
      storeTimestamp,
      recovered.scannedRecords,
      isNew = checkpoint.isEmpty && recovered.end == 0L,
      durableTo,
      sealKey,
      lost
    )
  }

  /** Followers that know more than the log does are wrong about it, and are shown all of it. */
  private def catchUp(scanned: RecoveredLog): RecoveredLog = {
    val ahead = followers.filter(_.durableTo > scanned.end)
    if (ahead.isEmpty) scanned
    else {
      logger.warn("the log ends before what is known of it and is read again end={}", scanned.end)
      ahead.foreach(_.startAnew())
      recovery.run(logMin)(record => if (isAlive(record)) ahead.foreach(_.replay(record)))
    }
  }

  private def canResume(found: Checkpoint): Boolean = {
    val problem =
      if (!found.hasFiles) Some("they were being made anew when the broker stopped")
      else if (found.queueFileBytes != queueFileBytes)
        Some("the size of the queue files has changed")
      else if (found.logOffset < logMin) Some(s"the log begins at $logMin")
      else resumeQueues().orElse(index.resume(found.index, found.logOffset))
    problem.foreach { what =>
      logger.warn(
        "the queues do not fit their checkpoint and are made anew checkpoint={} problem={}",
        found.logOffset,
        what
      )
    }
    problem.isEmpty
  }

  private def resumeQueues(): Option[String] =
    known.valuesIterator.map(resumeQueue).collectFirst { case Some(problem) => problem }

  private def resumeQueue(position: QueuePosition): Option[String] = {
    val queue = queues.getOrCreate(position.key)
    queue
      .resume(position.min, position.max)
      .orElse {
        val _ = queue.retire(logMin)
        ends(queue, position).find(offset => !isRight(queue, position.key, offset)).map(o =>
          s"unit $o is wrong"
        )
      }
      .map(problem => s"${position.key}: $problem")
  }

  private def ends(queue: ConsumeQueue, position: QueuePosition): Seq[Long] =
    if (queue.minOffset == position.max) Nil else Seq(queue.minOffset, position.max - 1)

  /**
   * Whether a unit points at the record that says it is this message: the cheap look at a queue.
   */
  private def isRight(queue: ConsumeQueue, key: QueueKey, queueOffset: Long): Boolean = {
    var isFound = false
    queue.scan(queueOffset, queueOffset + 1) { (_, commitLogOffset, size, _) =>
      isFound = size == QueueRebuild.LostSize || recordAt(commitLogOffset).exists { record =>
        record.size == size && record.position.queueOffset == queueOffset &&
        QueueKey(record.envelope.topic, record.envelope.queueId) == key
      }
      false
    }
    isFound
  }

  private lazy val segments: Vector[MappedSegment] =
    MappedSegment.list(files, directory.commitLog).map { base =>
      CommitLog.openSegment(files, directory.commitLog, base, segmentBytes)
    }

  private def recordAt(commitLogOffset: Long): Option[DecodedRecord] =
    segments.lift(MappedSegment.indexAt(segments, commitLogOffset)).flatMap { segment =>
      val at = commitLogOffset - segment.baseOffset
      if (at >= segment.capacity) None
      else LogRecords.at(segment, at.toInt, commitLogOffset)
    }

  private def startAnew(): Unit = {
    // A power failure may leave half of the new files under the names that the checkpoint knows.
    checkpoint.filter(_.hasFiles).foreach { found =>
      directory.table(StoreUpkeep.CheckpointTable).replace(Json.bytes(found.withoutFiles.encode))
    }
    queues.clear()
    index.clear()
    // A queue that lost all its messages to retention still goes on where it was.
    if (logMin > 0) known.valuesIterator.foreach(position =>
      queues.getOrCreate(position.key).startAt(position.max)
    )
  }

  private def keyOf(record: DecodedRecord): QueueKey =
    QueueKey(record.envelope.topic, record.envelope.queueId)

  private def isAlive(record: DecodedRecord): Boolean = {
    ensureTopicsKnown(keyOf(record))
    topics.isAlive(record.envelope.topic, record.position.commitLogOffset)
  }

  private def add(record: DecodedRecord, isAnew: Boolean): Unit = {
    val at = record.position
    val key = keyOf(record)
    val queue = queues.getOrCreate(key)
    // The first message left of a queue; those before it went with retention.
    if (isAnew && logMin > 0 && queue.minOffset == queue.nextOffset) queue.startAt(at.queueOffset)
    if (lost.exists(_.to <= at.commitLogOffset)) fillLost(queue, at.queueOffset)
    ensureDense(key, queue.nextOffset, at.queueOffset)
    queue.ensureRoom(1)
    queue.append(at.commitLogOffset, record.size, record.content.tagsCode)
    queue.publish(queue.nextOffset)
    if (isIndexed) {
      val hashes = MessageKeys.hashes(record.envelope.topicBytes, record.content.marks)
      index.ensureRoom(hashes.length, at.commitLogOffset)
      index.add(hashes, at.commitLogOffset)
    }
  }

  /** Units up to an offset whose messages are lost: at the place of the message before them. */
  private def fillLost(queue: ConsumeQueue, end: Long): Unit = if (queue.nextOffset < end) {
    val isFirst = queue.nextOffset == queue.minOffset
    val place = if (isFirst) logMin else queue.commitLogOffset(queue.nextOffset - 1)
    queue.ensureRoom((end - queue.nextOffset).toInt)
    while (queue.nextOffset < end) queue.append(place, QueueRebuild.LostSize, 0L)
    queue.publish(end)
  }

  /** Nobody else may get the offsets of the last messages of a queue, though they are lost. */
  private def keepLostEnds(): Unit = lost.foreach { range =>
    val ends = known.view.mapValues(_.max).toMap ++ range.ends
    ends.foreach { case (key, end) =>
      if (topics.isAlive(key.topic, range.from)) fillLost(queues.getOrCreate(key), end)
    }
  }

  // A topic that was deleted leaves a tombstone; without either the table itself is lost.
  private def ensureTopicsKnown(key: QueueKey): Unit =
    if (topics.isEmpty && !topics.contains(key.topic))
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
}

object StoreOpening {
  private val logger = LoggerFactory.getLogger(classOf[StoreOpening])
}
