package rmqordered.store

import java.lang.invoke.VarHandle
import java.nio.ByteBuffer
import java.nio.file.Path

import rmqordered.protocol.{RecordContent, RecordEnvelope, RecordPosition, StoredRecord}

/** Where the records of one append landed. */
final class Appended(val offsets: Array[Long], val sizes: Array[Int])

/**
 * All messages of the broker in the order of their arrival: records (`StoredRecord`) one after
 * another in segments of equal size. A record never spans two segments; the unused end of a segment
 * holds a filler `i32 size | i32 0xCBD43194`.
 *
 * Thread-safety: `append` by one thread at a time (the store's append lock); everything else by any
 * thread. After a crash `Recovery` cuts off what is not a whole record.
 */
final class CommitLog(folder: Path, segmentBytes: Int, recovered: RecoveredLog) {
  import CommitLog._

  @volatile private var segments: Vector[MappedSegment] = recovered.segments
  private var writePosition: Int = recovered.writePosition
  @volatile private var end: Long = recovered.end

  /** One past the last byte written. */
  def maxOffset: Long = end

  def minOffset: Long = segments.headOption.fold(0L)(_.baseOffset)

  /** The largest append that fits a segment together with the filler after it. */
  def maxAppendBytes: Int = segmentBytes - FillerBytes

  /**
   * Appends the records of one request, all or none: the first record's size is written last of
   * all, so that a process killed in the middle leaves nothing that recovery would take for a
   * record.
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
    val sizes = contents.iterator.map(StoredRecord.size(envelope, _)).toArray
    val total = sizes.sum
    val segment = segmentWithRoom(total)
    val start = writePosition
    segment.ensureAllocated(start + total + FillerBytes)
    val offsets = new Array[Long](sizes.length)
    val target = segment.bytes.duplicate().position(start)
    var i = 0
    contents.foreach { content =>
      val at = target.position()
      offsets(i) = segment.baseOffset + at
      val position = RecordPosition(firstQueueOffset + i, offsets(i), storeTimestamp)
      StoredRecord.writeWithoutSize(target, envelope, content, position)
      if (i > 0) target.putInt(at, sizes(i))
      i += 1
    }
    // Without the fence the compiler might move the size before the bytes it vouches for.
    VarHandle.releaseFence()
    target.putInt(start, sizes(0))
    writePosition = start + total
    end = segment.baseOffset + writePosition
    new Appended(offsets, sizes)
  }

  private def segmentWithRoom(bytes: Int): MappedSegment =
    segments.lastOption match {
      case Some(last) if writePosition + bytes + FillerBytes <= last.capacity => last
      case Some(last) =>
        val next = createSegment(last.baseOffset + last.capacity)
        writeFiller(last)
        addSegment(next)
      case None => addSegment(createSegment(end))
    }

  private def createSegment(baseOffset: Long): MappedSegment = {
    val segment = MappedSegment.open(folder, baseOffset, segmentBytes, AllocationStepBytes)
    segment.ensureAllocated(Math.min(segmentBytes, AllocationStepBytes))
    // The file's name must be as durable as the records that will be acknowledged in it.
    AtomicFile.forceFolder(folder)
    segment
  }

  private def addSegment(segment: MappedSegment): MappedSegment = {
    segments = segments :+ segment
    writePosition = 0
    end = segment.baseOffset
    segment
  }

  private def writeFiller(segment: MappedSegment): Unit = {
    segment.ensureAllocated(segment.capacity)
    segment.bytes.putInt(writePosition + StoredRecord.MagicAt, StoredRecord.MagicBlank)
    VarHandle.releaseFence()
    segment.bytes.putInt(writePosition, segment.capacity - writePosition)
    end = segment.baseOffset + segment.capacity
  }

  /** The segment that holds an offset. */
  def segmentAt(offset: Long): Option[MappedSegment] = {
    val current = segments
    val index = current.lastIndexWhere(_.baseOffset <= offset)
    if (index < 0 || offset >= end) None
    else Some(current(index)).filter(segment => offset < segment.baseOffset + segment.capacity)
  }

  /** When the record at an offset was stored. The offset must come from a consume queue. */
  def storeTimestamp(offset: Long): Long =
    segmentAt(offset).fold(-1L) { segment =>
      val at = (offset - segment.baseOffset).toInt
      val sysFlag = segment.bytes.getInt(at + StoredRecord.SysFlagAt)
      segment.bytes.getLong(at + StoredRecord.storeTimestampAt(sysFlag))
    }

  /** A record's bytes, not copied. */
  def record(offset: Long, size: Int): Option[ByteBuffer] =
    segmentAt(offset).map { segment =>
      segment.bytes.slice((offset - segment.baseOffset).toInt, size)
    }

  /** Makes the bytes of a range of offsets durable. */
  def force(from: Long, to: Long): Unit =
    segments.foreach { segment =>
      val start = Math.max(from - segment.baseOffset, 0L)
      val stop = Math.min(to - segment.baseOffset, segment.capacity.toLong)
      if (start < stop) segment.force(start.toInt, stop.toInt)
    }
}

object CommitLog {

  /** A filler is a size and a magic. */
  val FillerBytes = 8

  // Disk space is claimed in steps of this size: large enough to be rare, small enough that a broker
  // with three messages does not write a whole segment.
  val AllocationStepBytes: Int = 1 << 20
}
