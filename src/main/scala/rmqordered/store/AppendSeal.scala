package rmqordered.store

import java.nio.ByteBuffer
import java.util.zip.CRC32C

import rmqordered.protocol.StoredRecord

/**
 * What makes an append trustworthy: a trailer behind the records of one request.
 *
 * {{{
 * i32 size (16) | i32 magic | i32 bytes covered | i32 CRC-32C of the bytes covered
 * }}}
 *
 * The checksum in a record covers its body only, and pages reach the disk torn and in any order. So
 * recovery believes an append only as a whole, by its seal: headers, properties and all records of
 * a batch are there exactly as written, or the append never happened. The records say where they
 * stand, hence an old seal cannot vouch for new bytes.
 *
 * Readers never see a seal: queues point at records.
 */
object AppendSeal {
  val Bytes = 16

  private val Magic = 0x5ea1da7a
  private val CoveredAt = 8
  private val ChecksumAt = 12

  /** What stands at the place of an append. */
  sealed trait Outcome

  /** A whole append: records up to `sealAt`, then its seal. */
  final case class Whole(sealAt: Int) extends Outcome

  /** The filler at the end of a commit log file, of so many bytes. */
  final case class Filler(bytes: Int) extends Outcome

  /** Zeroes: nothing was written here. */
  case object Nothing extends Outcome
  final case class Torn(reason: String) extends Outcome

  /** Writes the seal of the bytes from `start` to `end`, behind them. */
  def write(segment: ByteBuffer, start: Int, end: Int): Unit = {
    val _ = segment
      .putInt(end, Bytes)
      .putInt(end + StoredRecord.MagicAt, Magic)
      .putInt(end + CoveredAt, end - start)
      .putInt(end + ChecksumAt, checksum(segment, start, end))
  }

  /** Looks at the append that starts at `start`, walking from record to record to its seal. */
  def check(segment: ByteBuffer, start: Int): Outcome = {
    val limit = segment.capacity()
    // Every append leaves room for a filler; less is the end of a file that was cut short.
    if (limit - start < CommitLog.FillerBytes) Filler(limit - start)
    else {
      val size = segment.getInt(start)
      val magic = segment.getInt(start + StoredRecord.MagicAt)
      if (size == 0) Nothing
      else if (magic == StoredRecord.MagicBlank) Filler(size)
      else walk(segment, start, limit)
    }
  }

  private def walk(segment: ByteBuffer, start: Int, limit: Int): Outcome = {
    var at = start
    var outcome: Option[Outcome] = None
    while (outcome.isEmpty) {
      if (limit - at < Bytes) outcome = Some(Torn("no seal before the end of the file"))
      else {
        val size = segment.getInt(at)
        segment.getInt(at + StoredRecord.MagicAt) match {
          case Magic => outcome = Some(verify(segment, start, at))
          case StoredRecord.MagicV1 | StoredRecord.MagicV2 =>
            if (size < StoredRecord.MinBytes || size > limit - at)
              outcome = Some(Torn(s"size $size where ${limit - at} bytes are left"))
            else at += size
          case other => outcome = Some(Torn(s"unknown magic 0x${other.toHexString} at byte $at"))
        }
      }
    }
    outcome.get
  }

  private def verify(segment: ByteBuffer, start: Int, sealAt: Int): Outcome = {
    val covered = segment.getInt(sealAt + CoveredAt)
    val isRight = segment.getInt(sealAt) == Bytes && covered == sealAt - start && covered > 0 &&
      segment.getInt(sealAt + ChecksumAt) == checksum(segment, start, sealAt)
    if (isRight) Whole(sealAt) else Torn(s"the seal at byte $sealAt does not match")
  }

  private def checksum(segment: ByteBuffer, start: Int, end: Int): Int = {
    val crc = new CRC32C()
    crc.update(segment.duplicate().limit(end).position(start))
    crc.getValue.toInt
  }
}
