package rmqordered.store

import java.nio.ByteBuffer
import java.nio.file.Path

import rmqordered.protocol.{RecordContent, RecordEnvelope, RecordPosition, StoredRecord}

/** Where the records of one append landed. */
final class Appended(val offsets: Array[Long], val sizes: Array[Int])

/**
 * All messages of the broker in the order of their arrival: the records (`StoredRecord`) of each
 * append and its seal (`AppendSeal`), one append after another, in segments of equal size. An
 * append never spans two segments; the unused end of a segment holds a filler
 * `i32 size | i32 0xCBD43194`.
 *
 * Thread-safety: `append`, `isShort` and `retire` by one thread at a time (the store's append
 * lock), `force` likewise (the flush lock); everything else by any thread. After a crash `Recovery`
 * cuts off what is not a whole append.
 *
 * @param durableTo
 *   up to where what was found is known to be on disk
 * @param sealKey
 *   what marks the seals of this log
 */
final class CommitLog(
    files: FileLayer,
    folder: Path,
    segmentBytes: Int,
    recovered: RecoveredLog,
    durableTo: Long,
    val sealKey: Int
) extends Growing {
  import CommitLog._

  @volatile private var segments: Vector[MappedSegment] = recovered.segments
  private var writePosition: Int = recovered.writePosition
  @volatile private var end: Long = recovered.end
  @volatile private var forcedTo: Long = durableTo
  // By whoever makes bytes durable: files below have names that are. None at first: a broker that
  // was killed may not have come to it.
  private var namedTo = 0L

  /** One past the last byte written. */
  def maxOffset: Long = end

  def minOffset: Long = segments.headOption.fold(end)(_.baseOffset)

  /** The bytes of all segments, the unused ones at the end too. */
  def sizeBytes: Long = segments.iterator.map(_.capacity.toLong).sum

  /** The largest append that fits a segment together with its seal and the filler after it. */
  def maxAppendBytes: Int = segmentBytes - AppendSeal.Bytes - FillerBytes

  /**
   * Appends the records of one request, all or none: without a seal that matches there is no
   * append.
   *
   * @throws java.io.IOException
   *   when there is no room on the disk; nothing is appended then
   */
  def append(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      firstQueueOffset: Long,
      storeTimestamp: Long
  ): Appended = {
    val sizes = StoredRecord.sizes(envelope, contents)
    val total = StoredRecord.totalSize(sizes)
    val segment = segmentWithRoom(total + AppendSeal.Bytes)
    val start = writePosition
    segment.ensureAllocated(start + total + AppendSeal.Bytes + FillerBytes)
    val offsets = new Array[Long](sizes.length)
    segment.noteWrite(total)
    val target = segment.bytes.duplicate().position(start)
    var i = 0
    while (i < offsets.length) {
      val at = target.position()
      offsets(i) = segment.baseOffset + at
      val position = RecordPosition(firstQueueOffset + i, offsets(i), storeTimestamp)
      StoredRecord.writeWithoutSize(target, envelope, contents(i), position)
      target.putInt(at, sizes(i))
      i += 1
    }
    val mark = AppendSeal.Mark.of(segment.baseOffset + start, forcedTo, sealKey)
    AppendSeal.write(segment.bytes, start, start + total, mark)
    writePosition = start + total + AppendSeal.Bytes
    end = segment.baseOffset + writePosition
    new Appended(offsets, sizes)
  }

  override def isShort: Boolean = segments.lastOption.exists { last =>
    last.allocatedTo < Math.min(writePosition.toLong + AllocationStepBytes, last.capacity.toLong)
  }

  /**
   * Several steps at once, for somebody has to be woken each time, but no more than what was
   * written so far: a broker with three messages stays small.
   */
  override def claimAhead(): Unit = segments.lastOption.foreach { last =>
    // The end may still be the one before this segment was added.
    val written = Math.max(end - last.baseOffset, 0L)
    val ahead = Math.max(AllocationStepBytes.toLong, Math.min(end, MaxAheadBytes))
    val target = Math.min(written + ahead, last.capacity.toLong)
    // Step by step: an append that comes too early waits for one of them only.
    while (last.allocatedTo < target) last.ensureAllocated(last.allocatedTo + 1)
  }

  private def segmentWithRoom(bytes: Int): MappedSegment =
    segments.lastOption match {
      case Some(last) if writePosition + bytes + FillerBytes <= last.capacity => last
      case Some(last) =>
        val next = createSegment(last.endOffset)
        writeFiller(last)
        addSegment(next)
      case None => addSegment(createSegment(end))
    }

  private def createSegment(baseOffset: Long): MappedSegment = {
    val segment = openSegment(files, folder, baseOffset, segmentBytes)
    segment.ensureAllocated(Math.min(segmentBytes, AllocationStepBytes))
    segment
  }

  private def addSegment(segment: MappedSegment): MappedSegment = {
    segments = segments :+ segment
    writePosition = 0
    end = segment.baseOffset
    segment
  }

  // A segment that recovery found cut short may have no room for a filler; its end says enough.
  private def writeFiller(segment: MappedSegment): Unit =
    if (segment.capacity - writePosition >= FillerBytes) {
      segment.ensureAllocated(writePosition + FillerBytes)
      segment.bytes.putInt(writePosition + StoredRecord.MagicAt, StoredRecord.MagicBlank)
      segment.bytes.putInt(writePosition, segment.capacity - writePosition)
      ()
    }

  /** The segment that holds an offset; nothing when retention has taken it. */
  def segmentAt(offset: Long): Option[MappedSegment] = {
    val current = segments
    val index = MappedSegment.indexAt(current, offset)
    if (index < 0 || offset >= end) None
    else Some(current(index)).filter(segment => offset < segment.endOffset)
  }

  /** The segments from the one that holds an offset on. */
  def segmentsFrom(offset: Long): Vector[MappedSegment] = {
    val current = segments
    current.drop(Math.max(MappedSegment.indexAt(current, offset), 0))
  }

  /** Up to where a segment is written. */
  def writtenTo(segment: MappedSegment): Int =
    Math.max(Math.min(end - segment.baseOffset, segment.capacity.toLong), 0L).toInt

  /** When the record at an offset was stored, or -1. The offset must come from a consume queue. */
  def storeTimestamp(offset: Long): Long =
    segmentAt(offset).fold(-1L)(segment =>
      timestampAt(segment, (offset - segment.baseOffset).toInt)
    )

  private def timestampAt(segment: MappedSegment, at: Int): Long = {
    segment.noteRead(StoredRecord.MinBytes)
    val sysFlag = segment.bytes.getInt(at + StoredRecord.SysFlagAt)
    segment.bytes.getLong(at + StoredRecord.storeTimestampAt(sysFlag))
  }

  /** A record's bytes, not copied. */
  def record(offset: Long, size: Int): Option[ByteBuffer] =
    segmentAt(offset).map { segment =>
      segment.noteRead(size)
      segment.bytes.slice((offset - segment.baseOffset).toInt, size)
    }

  /**
   * Every segment but the last, which is never given up, with the time of the newest message in it.
   */
  def retirable: Vector[(MappedSegment, Long)] = {
    val current = segments
    // Store times never fall, so the first message of the next segment is at least as young.
    current.zip(current.drop(1)).collect {
      case (segment, next) if end > next.baseOffset => (segment, timestampAt(next, 0))
    }
  }

  /** Forgets the segments below an offset and gives them; their files are still there. */
  def retire(below: Long): Vector[MappedSegment] = {
    val (gone, kept) = segments.partition(_.endOffset <= below)
    segments = kept
    gone
  }

  /**
   * Makes the bytes of a range of offsets durable, by one thread at a time, and the ranges in
   * order: what lies before is on disk already.
   */
  def force(from: Long, to: Long): Unit = {
    val current = segments
    // A file's name must be as durable as the records in it. Not when it is made: an append would
    // wait for whatever else the disk has to do first.
    current.lastOption.filter(_.endOffset > namedTo).foreach { last =>
      files.forceFolder(folder)
      namedTo = last.endOffset
    }
    current.drop(Math.max(MappedSegment.indexAt(current, from), 0)).foreach { segment =>
      val start = Math.max(from - segment.baseOffset, 0L)
      val stop = Math.min(to - segment.baseOffset, segment.capacity.toLong)
      if (start < stop) segment.force(start.toInt, stop.toInt)
    }
    forcedTo = Math.max(forcedTo, to)
  }
}

object CommitLog {

  /** A filler is a size and a magic. */
  val FillerBytes = 8

  /** A file of the log, made if it is not there. */
  def openSegment(files: FileLayer, folder: Path, base: Long, bytes: Int): MappedSegment =
    MappedSegment.open(files, folder, base, bytes, AllocationStepBytes)

  // Disk space is claimed in steps of this size: large enough to be rare, small enough that a
  // broker with three messages does not write a whole segment.
  val AllocationStepBytes: Int = 1 << 20

  // Of a log that grows fast so much is claimed before it is needed.
  private val MaxAheadBytes: Long = 4L << 20
}
