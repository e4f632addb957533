package rmqordered.store

import java.nio.ByteBuffer
import java.nio.file.Path

/**
 * One file of a log, mapped whole. It is named by the byte offset at which it starts, in 20 digits,
 * as RocketMQ names its files.
 *
 * Invariants: the file is as long as `capacity` from the start, but disk blocks are claimed step by
 * step by `ensureAllocated`, with ordinary writes of zeroes. A full disk is therefore an
 * IOException there, before any record is touched, and never a memory fault in the middle of one.
 * What lies beyond the last write is zero.
 *
 * Thread-safety: one writer, guarded by its owner; any number of readers of what the writer has
 * published, and of threads that claim space. The mapping is never taken away under a reader: it
 * goes with the last reference, also when retention has deleted the file by then.
 */
final class MappedSegment private (
    files: FileLayer,
    val file: Path,
    val baseOffset: Long,
    mapping: MappedFile,
    stepBytes: Int
) {
  @volatile private var allocated = 0

  /** The mapped bytes; callers use absolute access or duplicate it first. */
  val bytes: ByteBuffer = mapping.bytes

  val capacity: Int = bytes.capacity()

  /** One past the last offset that this file can hold. */
  def endOffset: Long = baseOffset + capacity

  /** Declares what is below `position` as written already, after reopening. */
  def resumeAt(position: Int): Unit = allocated = position

  /** Up to where disk space is claimed. */
  def allocatedTo: Int = allocated

  /**
   * Claims disk space up to `end`; throws IOException when there is none. Any thread: the lock
   * keeps one's zeroes off what another has claimed and written meanwhile.
   */
  def ensureAllocated(end: Int): Unit = if (end > allocated) synchronized {
    if (end > allocated) {
      val target = Math.min(capacity.toLong, roundUp(end)).toInt
      files.zero(file, allocated, target)
      allocated = target
    }
  }

  private def roundUp(end: Int): Long = (end.toLong + stepBytes - 1) / stepBytes * stepBytes

  /** Says that so many bytes in a row are read, or written, about now. */
  def noteRead(length: Int): Unit = mapping.noteRead(length)
  def noteWrite(length: Int): Unit = mapping.noteWrite(length)

  /** Makes a range durable. */
  def force(from: Int, to: Int): Unit = if (to > from) mapping.force(from, to - from)
}

object MappedSegment {
  private val NameDigits = 20

  /** Opens or creates a segment. An existing file keeps its own size. */
  def open(
      files: FileLayer,
      folder: Path,
      baseOffset: Long,
      capacity: Int,
      stepBytes: Int
  ): MappedSegment = {
    val file = folder.resolve(fileName(baseOffset))
    new MappedSegment(files, file, baseOffset, files.map(file, capacity), stepBytes)
  }

  def fileName(baseOffset: Long): String = {
    val digits = baseOffset.toString
    "0" * (NameDigits - digits.length) + digits
  }

  /** The base offsets of the segments in a folder, ascending. */
  def list(files: FileLayer, folder: Path): Vector[Long] =
    files
      .list(folder)
      .filter(name => name.length == NameDigits && name.forall(_.isDigit))
      .map(_.toLong)
      .toVector
      .sorted

  /** Index of the last segment that starts at or before an offset, or -1. */
  def indexAt(segments: Vector[MappedSegment], offset: Long): Int = {
    var (low, high) = (0, segments.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (segments(middle).baseOffset <= offset) low = middle + 1 else high = middle
    }
    low - 1
  }
}
