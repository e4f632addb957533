package rmqordered.store

import java.nio.file.Path

import org.slf4j.LoggerFactory

import rmqordered.model.Names
import rmqordered.protocol.{DecodedRecord, RecordReader}

/** A commit log found good and ready to be appended to. */
final case class RecoveredLog(
    segments: Vector[MappedSegment],
    writePosition: Int,
    end: Long,
    lastStoreTimestamp: Long,
    scannedRecords: Long = 0L
)

/**
 * Brings the commit log back after a stop of any kind: from a given place on, reads append after
 * append, believes those whose seal matches, and cuts the log at the first that does not. What was
 * acknowledged was forced together with everything before it, so it is never behind such a place.
 *
 * Must not: throw away anything that was on disk once. There a bad append or a missing file is
 * damage, not a torn write, and somebody has to look: the broker refuses to start. That is
 * everything below `durableTo`, the checkpoint, and below the place up to which a good append
 * further on says the log was forced. Without a checkpoint the same holds for everything with a
 * file behind it. Nor an append whose seal matches, wherever it is: if its records cannot be read,
 * they were written so.
 *
 * @param sealKey
 *   what marks the seals of this log, as far as the checkpoint knows
 * @param lost
 *   what an operator has given up, and is passed over
 */
final class Recovery(
    files: FileLayer,
    folder: Path,
    segmentBytes: Int,
    durableTo: Option[Long],
    sealKey: Option[Int] = None,
    lost: Vector[LostRange] = Vector.empty
) {
  import Recovery._

  // Those met on the way count as well: the checkpoint may be lost.
  private var keys = sealKey.toSet

  private var lastStoreTimestamp = 0L
  private var records = 0L

  /** Where the oldest file starts, if there is one. */
  def minOffset: Option[Long] = MappedSegment.list(files, folder).headOption

  /** Reads the log from an offset on and hands every good record to `visit`, in order. */
  def run(from: Long)(visit: DecodedRecord => Unit): RecoveredLog = {
    val all = MappedSegment.list(files, folder).map(openSegment)
    val segments = contiguous(all)
    val recovered =
      if (segments.isEmpty) nothing(from) else scanFrom(all, segments, from, visit)
    if (records > 0)
      logger.info("recovered records={} from={} end={}", records, from, recovered.end)
    recovered
  }

  private def nothing(from: Long): RecoveredLog = {
    if (durableTo.exists(_ > 0))
      throw new StoreError(
        s"The commit log in $folder is gone, but the checkpoint says it reached ${durableTo.get}."
      )
    RecoveredLog(Vector.empty, 0, from, 0L)
  }

  private def openSegment(base: Long): MappedSegment =
    CommitLog.openSegment(files, folder, base, segmentBytes)

  /** The files up to the first gap. A gap in what is known to be on disk is damage. */
  private def contiguous(segments: Vector[MappedSegment]): Vector[MappedSegment] = {
    val gapAfter = segments.zip(segments.drop(1)).indexWhere { case (l, r) =>
      r.baseOffset != l.endOffset
    }
    if (gapAfter < 0) segments
    else {
      val end = segments(gapAfter).endOffset
      if (durableTo.forall(end < _))
        throw new StoreError(
          s"The commit log in $folder has a gap: a file at $end is expected, found " +
            s"${segments(gapAfter + 1).baseOffset}."
        )
      segments.take(gapAfter + 1)
    }
  }

  private def scanFrom(
      all: Vector[MappedSegment],
      segments: Vector[MappedSegment],
      from: Long,
      visit: DecodedRecord => Unit
  ): RecoveredLog = {
    var index = MappedSegment.indexAt(segments, from)
    if (index < 0 || from > segments(index).endOffset)
      throw new StoreError(
        s"The commit log in $folder reaches from ${segments.head.baseOffset} to at most " +
          s"${segments.last.endOffset}; nothing is found at $from."
      )
    segments.take(index).foreach(segment => segment.resumeAt(segment.capacity))
    var scan = scanSegment(segments(index), (from - segments(index).baseOffset).toInt, visit)
    while (scan.isFull && index + 1 < segments.length) {
      segments(index).resumeAt(segments(index).capacity)
      index += 1
      scan = scanSegment(segments(index), 0, visit)
    }
    endAt(segments.take(index + 1), scan, all.drop(index + 1))
  }

  /** Makes the place where the scan stopped the end of the log. */
  private def endAt(
      segments: Vector[MappedSegment],
      scan: Scan,
      behind: Vector[MappedSegment]
  ): RecoveredLog = {
    val last = segments.last
    val end = last.baseOffset + scan.position
    ensureNotDamage(last, scan, behind)
    ensureNeverForced(last, scan, behind)
    val problem =
      scan.problem.orElse(Option.when(behind.nonEmpty)(s"${behind.length} files behind the end"))
    problem.foreach { what =>
      logger.warn(
        "the commit log ends in an unfinished append, cut off file={} position={} problem={}",
        last.file.getFileName,
        scan.position,
        what
      )
    }
    if (behind.nonEmpty) {
      behind.reverse.foreach(segment => files.delete(segment.file))
      files.forceFolder(folder)
    }
    // Always cut, torn or not: what lies behind the last append must be zero, on disk too, or
    // a later crash could bring bytes of an unfinished append back to life.
    if (!scan.isFull) files.cut(last.file, scan.position)
    val reopened = openSegment(last.baseOffset)
    reopened.resumeAt(scan.position)
    RecoveredLog(segments.init :+ reopened, scan.position, end, lastStoreTimestamp, records)
  }

  private def ensureNotDamage(
      last: MappedSegment,
      scan: Scan,
      behind: Vector[MappedSegment]
  ): Unit = {
    val end = last.baseOffset + scan.position
    val isDamage = durableTo.fold(behind.nonEmpty)(end < _)
    if (isDamage) {
      val known = durableTo.fold("later files exist")(to => s"it is known to reach $to")
      throw new StoreError(
        s"The commit log file ${last.file} is damaged at byte ${scan.position} " +
          s"(${scan.problem.getOrElse("no record")}) and $known; restore it from a backup, or go on " +
          "without those bytes: rmq-ordered broker --repair keeps them beside the log."
      )
    }
  }

  /**
   * Refuses to cut what a good append further on calls forced. Of several it is the first one whose
   * word is enough; a torn append before one that knows nothing of it is what a power failure
   * leaves.
   */
  private def ensureNeverForced(
      last: MappedSegment,
      scan: Scan,
      behind: Vector[MappedSegment]
  ): Unit = {
    val end = last.baseOffset + scan.position
    val rest = Option.unless(scan.isFull)((last, scan.position)).toVector ++ behind.map((_, 0))
    rest.foreach { case (segment, from) =>
      AppendSeal.search(segment.bytes, from, keys) { (start, mark) =>
        val forcedTo = segment.baseOffset + start - mark.behind
        if (mark.behind >= 0 && forcedTo > end)
          throw new StoreError(
            s"The commit log file ${last.file} is damaged at byte ${scan.position} " +
              s"(${scan.problem.getOrElse("no record")}): a good append at ${segment.baseOffset + start} " +
              s"says that the log was on disk up to $forcedTo, so this is no torn end. Nothing was " +
              "cut off; restore the file from a backup, or go on without those bytes: " +
              "rmq-ordered broker --repair keeps them beside the log."
          )
        true
      }
      segment.noteRead(segment.capacity - from)
    }
  }

  private def scanSegment(
      segment: MappedSegment,
      start: Int,
      visit: DecodedRecord => Unit
  ): Scan = {
    var position = start
    var result: Option[Scan] = None
    while (result.isEmpty) {
      val passed = lost.find(_.from == segment.baseOffset + position)
      if (passed.isDefined) {
        position = Math.min(passed.get.to - segment.baseOffset, segment.capacity.toLong).toInt
        if (position == segment.capacity) result = Some(Scan(position, isFull = true, None))
      } else AppendSeal.check(segment.bytes, position) match {
        case AppendSeal.Whole(sealAt, end, mark) =>
          val found = readAppend(segment, position, sealAt)
            .fold(problem => throw unreadable(segment, position, problem), identity)
          segment.noteRead(sealAt - position)
          found.foreach(accept(_, visit))
          mark.foreach(found => if (!keys.contains(found.key)) keys += found.key)
          position = end
        case AppendSeal.Filler(size) =>
          val isFull = position + size == segment.capacity
          val problem = Option.unless(isFull)(s"filler of $size bytes")
          result = Some(Scan(if (isFull) segment.capacity else position, isFull, problem))
        case AppendSeal.Nothing => result = Some(Scan(position, isFull = false, None))
        case AppendSeal.Torn(reason, _) =>
          result = Some(Scan(position, isFull = false, Some(reason)))
      }
    }
    result.get
  }

  /** The bytes are those that were written, so what is wrong with them is no torn write. */
  private def unreadable(segment: MappedSegment, position: Int, problem: String): StoreError =
    new StoreError(
      s"The commit log file ${segment.file} is damaged: the append at byte $position has a good " +
        s"seal, but a record of it cannot be read ($problem). Nothing was cut off, because what " +
        "follows may have been acknowledged; restore the file from a backup or move it and the " +
        "later files away."
    )

  private def accept(record: DecodedRecord, visit: DecodedRecord => Unit): Unit = {
    records += 1
    lastStoreTimestamp = Math.max(lastStoreTimestamp, record.position.storeTimestamp)
    visit(record)
  }

  /** The records of a sealed append, each checked for itself. */
  private def readAppend(
      segment: MappedSegment,
      start: Int,
      sealAt: Int
  ): Either[String, Vector[DecodedRecord]] = {
    val found = Vector.newBuilder[DecodedRecord]
    var at = start
    var problem: Option[String] = None
    while (at < sealAt && problem.isEmpty) {
      RecordReader.read(segment.bytes, at) match {
        case RecordReader.Found(record) =>
          problem = misplaced(record, segment.baseOffset + at)
          found += record
          at += record.size
        case RecordReader.Bad(reason) => problem = Some(reason)
        case RecordReader.Blank(_) | RecordReader.Nothing => problem = Some("no record")
      }
    }
    problem.toLeft(found.result())
  }

  private def misplaced(record: DecodedRecord, expected: Long): Option[String] =
    Option
      .when(record.position.commitLogOffset != expected)(
        s"the record says it is at ${record.position.commitLogOffset}, found at $expected"
      )
      .orElse(Names.topicProblem(record.envelope.topic))
}

object Recovery {
  private val logger = LoggerFactory.getLogger(classOf[Recovery])

  private final case class Scan(position: Int, isFull: Boolean, problem: Option[String])
}
