package rmqordered.store

import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption.{CREATE, READ, WRITE}
import java.nio.file.{Files, Path}
import java.nio.{ByteBuffer, MappedByteBuffer}

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
 * published. The mapping is never taken away under a reader: it goes with the last reference.
 */
final class MappedSegment private (
    file: Path,
    val baseOffset: Long,
    buffer: MappedByteBuffer,
    stepBytes: Int
) {
  private var allocated = 0

  val capacity: Int = buffer.capacity()

  /** The mapped bytes; callers use absolute access or duplicate it first. */
  def bytes: ByteBuffer = buffer

  /** Declares what is below `position` as written already, after reopening. */
  def resumeAt(position: Int): Unit = allocated = position

  /** Claims disk space up to `end`; throws IOException when there is none. */
  def ensureAllocated(end: Int): Unit =
    if (end > allocated) {
      val target = Math.min(capacity.toLong, roundUp(end)).toInt
      val channel = FileChannel.open(file, WRITE)
      try {
        val zeroes = ByteBuffer.allocate(target - allocated)
        while (zeroes.hasRemaining) channel.write(zeroes, (target - zeroes.remaining()).toLong)
      } finally channel.close()
      allocated = target
    }

  private def roundUp(end: Int): Long = (end.toLong + stepBytes - 1) / stepBytes * stepBytes

  /** Makes a range durable. */
  def force(from: Int, to: Int): Unit =
    if (to > from) {
      val _ = buffer.force(from, to - from)
    }
}

object MappedSegment {
  private val NameDigits = 20

  /** Opens or creates a segment. An existing file keeps its own size. */
  def open(folder: Path, baseOffset: Long, capacity: Int, stepBytes: Int): MappedSegment = {
    val file = folder.resolve(fileName(baseOffset))
    val channel = FileChannel.open(file, CREATE, READ, WRITE)
    try {
      val size = if (channel.size() > 0) channel.size() else capacity.toLong
      if (size > Int.MaxValue)
        throw new StoreError(s"The file $file has $size bytes, at most ${Int.MaxValue} expected.")
      val buffer = channel.map(FileChannel.MapMode.READ_WRITE, 0, size)
      new MappedSegment(file, baseOffset, buffer, stepBytes)
    } finally channel.close()
  }

  /** Cuts a file at `position`, durably, and gives it back its length: the rest becomes zeroes. */
  def cut(folder: Path, baseOffset: Long, position: Int): Unit = {
    val channel = FileChannel.open(folder.resolve(fileName(baseOffset)), READ, WRITE)
    try {
      val size = channel.size()
      channel.truncate(position.toLong)
      channel.write(ByteBuffer.allocate(1), size - 1)
      channel.force(true)
    } finally channel.close()
  }

  def fileName(baseOffset: Long): String = {
    val digits = baseOffset.toString
    "0" * (NameDigits - digits.length) + digits
  }

  /** The base offsets of the segments in a folder, ascending. */
  def list(folder: Path): Vector[Long] = {
    val files = Files.list(folder)
    try {
      val offsets = Vector.newBuilder[Long]
      files.forEach { file =>
        val name = file.getFileName.toString
        if (name.length == NameDigits && name.forall(_.isDigit)) offsets += name.toLong
      }
      offsets.result().sorted
    } finally files.close()
  }
}
