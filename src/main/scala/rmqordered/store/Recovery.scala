package rmqordered.store

import java.nio.file.{Files, Path}

import org.slf4j.LoggerFactory

import rmqordered.model.Names
import rmqordered.protocol.{DecodedRecord, RecordReader}

/** A commit log found good and ready to be appended to. */
final case class RecoveredLog(
    segments: Vector[MappedSegment],
    writePosition: Int,
    end: Long,
    lastStoreTimestamp: Long
)

/**
 * Brings the commit log back after a stop of any kind: reads every record, checks magic, lengths,
 * place and checksum, and cuts the last segment at the first record that is not whole.
 *
 * Must not: throw away anything but the torn end of the last segment. A bad record with good
 * segments behind it is damage, not a torn write, and somebody has to look: the broker refuses to
 * start.
 */
final class Recovery(folder: Path, segmentBytes: Int) {
  import Recovery._

  private var lastStoreTimestamp = 0L
  private var records = 0L

  /** Reads the log from its beginning and hands every good record to `visit`, in order. */
  def run(visit: DecodedRecord => Unit): RecoveredLog = {
    Files.createDirectories(folder)
    val bases = MappedSegment.list(folder)
    val segments = bases.map(openSegment)
    ensureContiguous(segments)
    segments.dropRight(1).foreach(segment => scanFull(segment, visit))
    val recovered = segments.lastOption match {
      case None => RecoveredLog(Vector.empty, 0, 0L, 0L)
      case Some(last) => recoverLast(segments.dropRight(1), last, visit)
    }
    if (records > 0) logger.info("recovered records={} end={}", records, recovered.end)
    recovered
  }

  private def openSegment(base: Long): MappedSegment =
    MappedSegment.open(folder, base, segmentBytes, CommitLog.AllocationStepBytes)

  private def ensureContiguous(segments: Vector[MappedSegment]): Unit =
    segments.zip(segments.drop(1)).foreach { case (left, right) =>
      val expected = left.baseOffset + left.capacity
      if (right.baseOffset != expected)
        throw new StoreError(
          s"The commit log in $folder has a gap: a file at $expected is expected after " +
            s"${left.baseOffset}, found ${right.baseOffset}."
        )
    }

  private def scanFull(segment: MappedSegment, visit: DecodedRecord => Unit): Unit = {
    val scan = scanSegment(segment, visit)
    if (!scan.isFull) {
      val file = folder.resolve(MappedSegment.fileName(segment.baseOffset))
      val problem = scan.problem.getOrElse("no record")
      throw new StoreError(
        s"The commit log file $file is damaged at byte ${scan.position} ($problem) and later " +
          "files exist; restore it from a backup or move it and the later files away."
      )
    }
    segment.resumeAt(segment.capacity)
  }

  private def recoverLast(
      before: Vector[MappedSegment],
      last: MappedSegment,
      visit: DecodedRecord => Unit
  ): RecoveredLog = {
    val scan = scanSegment(last, visit)
    scan.problem.foreach { problem =>
      logger.warn(
        "the commit log ends in a torn record, cutting it off file={} position={} problem={}",
        MappedSegment.fileName(last.baseOffset),
        scan.position,
        problem
      )
    }
    // Always cut, torn or not: what lies behind the last record must be zero, on disk too, or a
    // later
    // crash could bring bytes of an unfinished append back to life.
    if (!scan.isFull) MappedSegment.cut(folder, last.baseOffset, scan.position)
    val reopened = openSegment(last.baseOffset)
    reopened.resumeAt(scan.position)
    val end = last.baseOffset + scan.position
    RecoveredLog(before :+ reopened, scan.position, end, lastStoreTimestamp)
  }

  private def scanSegment(segment: MappedSegment, visit: DecodedRecord => Unit): Scan = {
    var position = 0
    var result: Option[Scan] = None
    while (result.isEmpty) {
      RecordReader.read(segment.bytes, position) match {
        case RecordReader.Found(record) =>
          misplaced(record, segment.baseOffset + position) match {
            case Some(problem) => result = Some(Scan(position, isFull = false, Some(problem)))
            case None =>
              records += 1
              lastStoreTimestamp = Math.max(lastStoreTimestamp, record.position.storeTimestamp)
              visit(record)
              position += record.size
          }
        case RecordReader.Blank(size) =>
          val isFull = position + size == segment.capacity
          val problem = Option.unless(isFull)(s"filler of $size bytes")
          result = Some(Scan(if (isFull) segment.capacity else position, isFull, problem))
        case RecordReader.Nothing => result = Some(Scan(position, isFull = false, None))
        case RecordReader.Bad(reason) =>
          result = Some(Scan(position, isFull = false, Some(reason)))
      }
    }
    result.get
  }

  private def misplaced(record: DecodedRecord, expected: Long): Option[String] =
    Option
      .when(record.position.commitLogOffset != expected)(
        s"the record says it is at ${record.position.commitLogOffset}, found at $expected"
      )
      // The checksum covers the body only; a name that could never have been stored is damage too.
      .orElse(Names.topicProblem(record.envelope.topic))
}

object Recovery {
  private val logger = LoggerFactory.getLogger(classOf[Recovery])

  private final case class Scan(position: Int, isFull: Boolean, problem: Option[String])
}
