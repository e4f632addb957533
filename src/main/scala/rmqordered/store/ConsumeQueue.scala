package rmqordered.store

import java.nio.file.{Files, Path}

/**
 * The index of one queue: unit n says where the queue's message n is in the commit log.
 *
 * {{{
 * i64 commit log offset | i32 record size | i64 tags code      = 20 bytes
 * }}}
 *
 * A unit is written by `append` and becomes visible to readers by `publish`: with synchronous flush
 * a message must not be read before it is durable, or a consumer could be ahead of what survives.
 *
 * Thread-safety: `ensureRoom` and `append` under the store's append lock, `publish` by whoever
 * makes messages durable; readers see units below `maxOffset` only. After a crash the queue is
 * rebuilt from the commit log.
 */
final class ConsumeQueue(folder: Path, segmentBytes: Int) {
  import ConsumeQueue._

  @volatile private var segments: Vector[MappedSegment] = Vector.empty
  private var next: Long = 0L
  @volatile private var published: Long = 0L

  /** First offset that can be read. Retention will raise it one day. */
  def minOffset: Long = 0L

  /** One past the last offset that can be read. */
  def maxOffset: Long = published

  /** The offset the next message gets; ahead of `maxOffset` while messages wait for the disk. */
  def nextOffset: Long = next

  /** Claims disk space for so many units, before the commit log is touched. */
  def ensureRoom(count: Int): Unit = {
    val endByte = (next + count) * UnitBytes
    var covered = segments.lastOption.fold(0L)(last => last.baseOffset + last.capacity)
    if (segments.isEmpty) Files.createDirectories(folder)
    while (covered < endByte) {
      segments = segments :+ MappedSegment.open(folder, covered, segmentBytes, AllocationStepBytes)
      covered = segments.last.baseOffset + segments.last.capacity
    }
    val firstByte = next * UnitBytes
    segments.drop((firstByte / segmentBytes).toInt).foreach { segment =>
      segment.ensureAllocated(Math.min(endByte - segment.baseOffset, segmentBytes.toLong).toInt)
    }
  }

  def append(commitLogOffset: Long, size: Int, tagsCode: Long): Unit = {
    val byte = next * UnitBytes
    val segment = segments((byte / segmentBytes).toInt)
    val at = (byte - segment.baseOffset).toInt
    segment.bytes.putLong(at, commitLogOffset).putInt(at + 8, size).putLong(at + 12, tagsCode)
    next += 1
  }

  /** Makes units below `queueOffset` visible. Late calls for lower offsets change nothing. */
  def publish(queueOffset: Long): Unit = synchronized {
    if (queueOffset > published) published = queueOffset
  }

  def commitLogOffset(queueOffset: Long): Long =
    at(queueOffset)((segment, i) => segment.bytes.getLong(i))

  /**
   * Calls `visit(queueOffset, commitLogOffset, size, tagsCode)` until it returns false or `end`.
   */
  def scan(start: Long, end: Long)(visit: UnitVisitor): Unit = {
    var queueOffset = start
    var goOn = true
    while (goOn && queueOffset < end) {
      val byte = queueOffset * UnitBytes
      val segment = segments((byte / segmentBytes).toInt)
      val at = (byte - segment.baseOffset).toInt
      val units = segment.bytes
      goOn = visit(queueOffset, units.getLong(at), units.getInt(at + 8), units.getLong(at + 12))
      queueOffset += 1
    }
  }

  private def at[T](queueOffset: Long)(read: (MappedSegment, Int) => T): T = {
    val byte = queueOffset * UnitBytes
    val segment = segments((byte / segmentBytes).toInt)
    read(segment, (byte - segment.baseOffset).toInt)
  }
}

object ConsumeQueue {
  val UnitBytes = 20
  private val AllocationStepBytes = 64 * 1024

  /** Sees one unit; says whether to go on. */
  trait UnitVisitor {
    def apply(queueOffset: Long, commitLogOffset: Long, size: Int, tagsCode: Long): Boolean
  }
}
