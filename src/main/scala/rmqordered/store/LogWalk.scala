package rmqordered.store

import java.nio.ByteBuffer

import rmqordered.protocol.{DecodedRecord, RecordReader}

/**
 * Goes through the commit log from append to append, also past bad ones: to where the seal of such
 * a one ends, or else to the next good append that can be found. What was read at a good seal is as
 * it was written.
 *
 * Any thread; stops where the log ends when it gets there.
 */
final class LogWalk(log: CommitLog) {
  import LogWalk._

  /** Visits the records of good appends, from the segment that holds an offset on. */
  def records(from: Long)(visit: DecodedRecord => Boolean): Unit = {
    var goOn = true
    val segments = log.segmentsFrom(from).iterator
    while (goOn && segments.hasNext) {
      val segment = segments.next()
      var at = 0
      while (goOn && at < log.writtenTo(segment)) {
        val found = step(segment.bytes, at, log.writtenTo(segment), Set(log.sealKey))
        segment.noteRead(found.next - at)
        found match {
          case Good(sealAt, _) => goOn = visitAll(segment, at, sealAt, visit)
          case _ => ()
        }
        at = found.next
      }
    }
  }

  private def visitAll(
      segment: MappedSegment,
      start: Int,
      sealAt: Int,
      visit: DecodedRecord => Boolean
  ): Boolean = {
    var at = start
    var goOn = true
    while (goOn && at < sealAt)
      RecordReader.read(segment.bytes, at) match {
        case RecordReader.Found(record) =>
          goOn = visit(record)
          at += record.size
        case _ => at = sealAt
      }
    goOn
  }
}

object LogWalk {

  /** What stands at a place, and where to look next. */
  sealed trait Step {
    def next: Int
  }

  final case class Good(sealAt: Int, next: Int) extends Step
  final case class Bad(next: Int, reason: String) extends Step

  /** The rest of a file holds nothing. */
  final case class End(next: Int) extends Step

  /** Looks at `at` in a segment that is written up to `limit`. */
  def step(segment: ByteBuffer, at: Int, limit: Int, keys: Set[Int]): Step =
    AppendSeal.check(segment, at) match {
      case AppendSeal.Whole(sealAt, end, _) => Good(sealAt, end)
      case AppendSeal.Filler(size) if at + size == segment.capacity() => End(limit)
      case AppendSeal.Filler(size) =>
        Bad(resume(segment, at, limit, keys), s"a filler of $size bytes")
      case AppendSeal.Nothing => Bad(resume(segment, at, limit, keys), "no record")
      case AppendSeal.Torn(reason, Some(end)) if isGoodPlace(segment, end, limit) =>
        Bad(end, reason)
      case AppendSeal.Torn(reason, _) => Bad(resume(segment, at, limit, keys), reason)
    }

  private def isGoodPlace(segment: ByteBuffer, at: Int, limit: Int): Boolean =
    at == limit || at < limit && (AppendSeal.check(segment, at) match {
      case _: AppendSeal.Whole => true
      case AppendSeal.Filler(size) => at + size == segment.capacity()
      case AppendSeal.Nothing | _: AppendSeal.Torn => false
    })

  private def resume(segment: ByteBuffer, at: Int, limit: Int, keys: Set[Int]): Int = {
    var found = limit
    AppendSeal.search(segment, at + 1, keys) { (start, _) =>
      if (start < limit) found = start
      false
    }
    found
  }
}
