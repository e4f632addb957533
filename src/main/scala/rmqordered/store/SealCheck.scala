package rmqordered.store

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import rmqordered.store.SealCheck.Range

/**
 * Whether bytes of the commit log are as they were written. A record's own checksum covers its body
 * alone, so each append is compared with its seal before anybody gets a record of it: when the
 * first read comes to it, and again by the scrub, for bytes rot while nobody reads them.
 *
 * What was compared is remembered as one place per file: everything below. A file is looked through
 * from its beginning, where an append begins; so a read in the middle of an old file pays for what
 * lies before it, once.
 *
 * Thread-safe.
 *
 * @param lost
 *   what is known to be damaged and was given up, so nobody needs to hear of it
 */
final class SealCheck(log: CommitLog, lost: Vector[LostRange], faults: StoreFaults) {
  private val files = new ConcurrentHashMap[java.lang.Long, Checked]()
  private val keys = Set(log.sealKey)

  def of(segment: MappedSegment): Checked =
    files.computeIfAbsent(segment.baseOffset, _ => new Checked(segment))

  /** Whether a record of the log may be shown. */
  def isGood(segment: MappedSegment, at: Int, size: Int): Boolean = of(segment).isGood(at, size)

  /** Forgets the files below an offset, which retention has taken. */
  def forget(below: Long): Unit = { val _ = files.keySet().removeIf(_ < below) }

  /** One file of the log. */
  final class Checked(segment: MappedSegment) {
    private val checkedTo = new AtomicInteger()
    @volatile private var damaged = Vector.empty[Range]

    /** Whether the bytes of a record are in a good append. */
    def isGood(at: Int, size: Int): Boolean = {
      if (at + size > checkedTo.get) checkTo(at + size)
      damaged.isEmpty || !damaged.exists(_.overlaps(at, at + size))
    }

    private def checkTo(end: Int): Unit = synchronized {
      val limit = log.writtenTo(segment)
      var at = checkedTo.get
      while (at < end && at < limit) {
        at = compare(at, limit)
        checkedTo.set(at)
      }
    }

    /** Compares the append at a place once more; gives the place behind it. */
    def scrub(at: Int): Int = synchronized {
      val limit = log.writtenTo(segment)
      val next = if (at < limit) compare(at, limit) else at
      if (checkedTo.get == at) checkedTo.set(next)
      next
    }

    private def compare(at: Int, limit: Int): Int = {
      val step = LogWalk.step(segment.bytes, at, limit, keys)
      segment.noteRead(step.next - at)
      step match {
        case LogWalk.Bad(next, reason) if !damaged.exists(_.overlaps(at, next)) =>
          damaged = damaged :+ Range(at, next)
          if (!lost.exists(_.from == segment.baseOffset + at))
            faults.damagedAppend(segment.file, at, next, reason)
        case _ => ()
      }
      step.next
    }
  }
}

object SealCheck {

  /** Damaged bytes of a file. */
  private final case class Range(from: Int, until: Int) {
    def overlaps(start: Int, end: Int): Boolean = start < until && end > from
  }
}
