package rmqordered.store

import java.nio.ByteBuffer
import java.util.zip.CRC32C

import rmqordered.protocol.StoredRecord

/**
 * What makes an append trustworthy: a trailer behind the records of one request.
 *
 * {{{
 * i32 size (24) | i32 magic | i32 bytes covered | i32 how far behind forced | i32 key | i32 CRC-32C
 * }}}
 *
 * The checksum in a record covers its body only, and pages reach the disk torn and in any order. So
 * recovery believes an append only as a whole, by its seal: headers, properties and all records of
 * a batch are there exactly as written, or the append never happened. The records say where they
 * stand, hence an old seal cannot vouch for new bytes. The CRC covers the seal, too.
 *
 * A seal also says up to where the log was on disk when it was written: so many bytes before the
 * append. What is bad below that place was good once: damage, not a torn write. The key is known to
 * this broker alone, so that no body can pretend to hold a seal.
 *
 * Older seals have 16 bytes, `size | magic | bytes covered | CRC`, and say nothing of the disk.
 *
 * Readers never see a seal: queues point at records.
 */
object AppendSeal {
  val Bytes = 24

  private val Magic = 0x5ea1da7a
  private val CoveredAt = 8
  private val BehindAt = 12
  private val KeyAt = 16
  private val ChecksumAt = 20

  private val OldBytes = 16
  private val OldChecksumAt = 12

  // The first eight bytes of a seal.
  private val Head = (Bytes.toLong << 32) | Magic
  private val Unknown = -1

  /** What stands at the place of an append. */
  sealed trait Outcome

  /**
   * A whole append: records up to `sealAt`, then its seal, up to `end`.
   *
   * @param mark
   *   what it says of the disk; nothing when it is an old one
   */
  final case class Whole(sealAt: Int, end: Int, mark: Option[Mark]) extends Outcome

  /** The filler at the end of a commit log file, of so many bytes. */
  final case class Filler(bytes: Int) extends Outcome

  /** Zeroes: nothing was written here. */
  case object Nothing extends Outcome

  /** No whole append; where its seal ends, if there is one that does not match. */
  final case class Torn(reason: String, sealEnd: Option[Int] = None) extends Outcome

  /** The log was forced up to `behind` bytes before the append; -1 when that is too far to say. */
  final case class Mark(behind: Int, key: Int)

  object Mark {
    def of(start: Long, forcedTo: Long, key: Int): Mark = {
      val behind = start - forcedTo
      Mark(if (behind >= 0 && behind <= Int.MaxValue) behind.toInt else Unknown, key)
    }
  }

  /** Writes the seal of the bytes from `start` to `end`, behind them. */
  def write(segment: ByteBuffer, start: Int, end: Int, mark: Mark): Unit = {
    segment
      .putInt(end, Bytes)
      .putInt(end + StoredRecord.MagicAt, Magic)
      .putInt(end + CoveredAt, end - start)
      .putInt(end + BehindAt, mark.behind)
      .putInt(end + KeyAt, mark.key)
    val _ = segment.putInt(end + ChecksumAt, checksum(segment, start, end + ChecksumAt))
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
      if (limit - at < OldBytes) outcome = Some(Torn("no seal before the end of the file"))
      else {
        val size = segment.getInt(at)
        segment.getInt(at + StoredRecord.MagicAt) match {
          case Magic => outcome = Some(verify(segment, start, at, limit))
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

  private def verify(segment: ByteBuffer, start: Int, sealAt: Int, limit: Int): Outcome = {
    val covered = segment.getInt(sealAt + CoveredAt)
    val found = if (covered != sealAt - start || covered <= 0) None
    else
      segment.getInt(sealAt) match {
        case Bytes if limit - sealAt >= Bytes =>
          val isRight = segment.getInt(sealAt + ChecksumAt) ==
            checksum(segment, start, sealAt + ChecksumAt)
          Option.when(isRight)(Whole(sealAt, sealAt + Bytes, Some(markAt(segment, sealAt))))
        case OldBytes =>
          val isRight = segment.getInt(sealAt + OldChecksumAt) == checksum(segment, start, sealAt)
          Option.when(isRight)(Whole(sealAt, sealAt + OldBytes, None))
        case _ => None
      }
    found.getOrElse {
      val end = sealAt + (if (segment.getInt(sealAt) == OldBytes) OldBytes else Bytes)
      Torn(s"the seal at byte $sealAt does not match", Some(Math.min(end, limit)))
    }
  }

  private def markAt(segment: ByteBuffer, sealAt: Int): Mark =
    Mark(segment.getInt(sealAt + BehindAt), segment.getInt(sealAt + KeyAt))

  /**
   * Looks for whole appends that start at `from` or later, wherever they are, and calls
   * `visit(start, mark)` for each until it returns false. Only seals with a key that is known
   * count: bytes of a body may look like anything else.
   */
  def search(
      segment: ByteBuffer,
      from: Int,
      keys: Set[Int]
  )(visit: (Int, Mark) => Boolean): Unit = {
    val last = segment.capacity() - Bytes
    var at = from
    var goOn = keys.nonEmpty
    while (goOn && at <= last) {
      val found = segment.getLong(at)
      if (found == Head) {
        val start = at - segment.getInt(at + CoveredAt)
        if (start >= from && start < at && keys.contains(segment.getInt(at + KeyAt)))
          verify(segment, start, at, segment.capacity()) match {
            case Whole(_, _, Some(mark)) => goOn = visit(start, mark)
            case _ => ()
          }
      }
      // A head has three zeroes in front, so it may begin with the last three of eight of them.
      at += (if (found == 0L) 5 else 1)
    }
  }

  private def checksum(segment: ByteBuffer, start: Int, end: Int): Int = {
    val crc = new CRC32C()
    crc.update(segment.duplicate().limit(end).position(start))
    crc.getValue.toInt
  }
}
