package rmqordered.store

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicLong

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
 * Thread-safety: `ensureRoom`, `append`, `startAt`, `resume` and `retire` under the store's append
 * lock, `publish` by whoever makes messages durable, `flush` by the checkpoint; readers see units
 * from `minOffset` to below `maxOffset` only. After a crash the units below the checkpoint are
 * there, the others are written again from the commit log.
 */
final class ConsumeQueue(files: FileLayer, folder: Path, segmentBytes: Int) {
  import ConsumeQueue._

  @volatile private var segments: Vector[MappedSegment] = Vector.empty
  @volatile private var min: Long = 0L
  // Written without a fence, as a batch appends thousands of units.
  private val appended = new AtomicLong()
  @volatile private var published: Long = 0L
  // By the checkpoint's thread only: units below are on disk, and so are the names of files.
  private var flushed: Long = 0L
  private var namedUpTo: Long = -1L

  /** First offset that can be read. */
  def minOffset: Long = min

  /** One past the last offset that can be read. */
  def maxOffset: Long = published

  /** The offset the next message gets; ahead of `maxOffset` while messages wait for the disk. */
  def nextOffset: Long = appended.get

  /** Makes a queue without messages begin at an offset. */
  def startAt(queueOffset: Long): Unit = {
    segments = Vector.empty
    min = queueOffset
    appended.set(queueOffset)
    published = queueOffset
    flushed = queueOffset
  }

  /**
   * Goes on with the files on disk, whose units below `queueOffset` were flushed.
   *
   * @return
   *   why that is not possible
   */
  def resume(firstOffset: Long, queueOffset: Long): Option[String] = {
    startAt(queueOffset)
    min = firstOffset
    if (firstOffset == queueOffset) None
    else {
      val wanted = Range.Long(fileOf(firstOffset), fileOf(queueOffset - 1) + 1, segmentBytes.toLong)
      val bases = MappedSegment.list(files, folder).toSet
      wanted.find(base => !bases.contains(base)).map(base => s"file $base is missing").orElse {
        segments = wanted.map(open).toVector
        segments.last.resumeAt((queueOffset * UnitBytes - segments.last.baseOffset).toInt)
        namedUpTo = segments.last.baseOffset
        segments.find(_.capacity != segmentBytes).map(s =>
          s"file ${s.baseOffset} has ${s.capacity} bytes"
        )
      }
    }
  }

  /** Claims disk space for so many units, before the commit log is touched. */
  def ensureRoom(count: Int): Unit = {
    val endByte = (nextOffset + count) * UnitBytes
    var covered = segments.lastOption.fold(fileOf(nextOffset))(_.endOffset)
    // Not forced under the append lock; `flush` does it before a checkpoint relies on the file.
    if (segments.isEmpty) files.createFolder(folder, isForced = false)
    while (covered < endByte) {
      segments = segments :+ create(covered)
      covered = segments.last.endOffset
    }
    val firstByte = nextOffset * UnitBytes
    segments.drop(MappedSegment.indexAt(segments, firstByte)).foreach { segment =>
      segment.noteWrite(count * UnitBytes)
      segment.ensureAllocated(Math.min(endByte - segment.baseOffset, segmentBytes.toLong).toInt)
    }
  }

  private def open(base: Long): MappedSegment =
    MappedSegment.open(files, folder, base, segmentBytes, AllocationStepBytes)

  private def create(base: Long): MappedSegment = {
    // Whatever has that name is older than the checkpoint and nobody's.
    files.delete(folder.resolve(MappedSegment.fileName(base)))
    open(base)
  }

  private def fileOf(queueOffset: Long): Long =
    queueOffset * UnitBytes / segmentBytes * segmentBytes

  def append(commitLogOffset: Long, size: Int, tagsCode: Long): Unit = {
    val next = nextOffset
    val byte = next * UnitBytes
    val segment = segments(index(segments, byte))
    val at = (byte - segment.baseOffset).toInt
    segment.bytes.putLong(at, commitLogOffset).putInt(at + 8, size).putLong(at + 12, tagsCode)
    appended.setRelease(next + 1)
  }

  /** Writes a unit again that is there already. Any thread; readers check what they see. */
  def rewrite(queueOffset: Long, commitLogOffset: Long, size: Int, tagsCode: Long): Unit = {
    val current = segments
    val byte = queueOffset * UnitBytes
    val i = if (current.isEmpty) -1 else index(current, byte)
    if (i >= 0 && i < current.length) {
      val at = (byte - current(i).baseOffset).toInt
      val _ = current(i).bytes.putLong(at, commitLogOffset).putInt(at + 8, size)
        .putLong(at + 12, tagsCode)
    }
  }

  /** Makes units durable that were written again. */
  def force(from: Long, until: Long): Unit = segments.foreach { segment =>
    val start = Math.max(from * UnitBytes - segment.baseOffset, 0L)
    val stop = Math.min(until * UnitBytes - segment.baseOffset, segment.capacity.toLong)
    if (start < stop) segment.force(start.toInt, stop.toInt)
  }

  /** Makes units below `queueOffset` visible. Late calls for lower offsets change nothing. */
  def publish(queueOffset: Long): Unit = synchronized {
    if (queueOffset > published) published = queueOffset
  }

  /** Where a message is, or -1 when retention has taken it. */
  def commitLogOffset(queueOffset: Long): Long = {
    var found = -1L
    scan(queueOffset, queueOffset + 1) { (_, commitLogOffset, _, _) =>
      found = commitLogOffset
      false
    }
    found
  }

  /**
   * Calls `visit(queueOffset, commitLogOffset, size, tagsCode)` until it returns false or `end`.
   * Stops early when retention takes the units away meanwhile.
   */
  def scan(start: Long, end: Long)(visit: UnitVisitor): Unit = {
    val current = segments
    var queueOffset = start
    var noted: MappedSegment = null
    var goOn = current.nonEmpty
    while (goOn && queueOffset < end) {
      val byte = queueOffset * UnitBytes
      val i = index(current, byte)
      if (i < 0 || i >= current.length) goOn = false
      else {
        val segment = current(i)
        if (segment ne noted) {
          segment.noteRead((Math.min(end * UnitBytes, segment.endOffset) - byte).toInt)
          noted = segment
        }
        val at = (byte - segment.baseOffset).toInt
        val units = segment.bytes
        goOn = visit(queueOffset, units.getLong(at), units.getInt(at + 8), units.getLong(at + 12))
        queueOffset += 1
      }
    }
  }

  private def index(current: Vector[MappedSegment], byte: Long): Int =
    Math.floorDiv(byte - current.head.baseOffset, segmentBytes.toLong).toInt

  /**
   * Gives up the units of messages below a commit log offset; gives the files not needed any more.
   */
  def retire(logMin: Long): Vector[MappedSegment] = {
    var (low, high) = (min, nextOffset)
    while (low < high) {
      val middle = low + (high - low) / 2
      val place = commitLogOffset(middle)
      // A damaged unit points anywhere: rather keep too much than give up what is still there.
      if (place < 0 || place >= logMin) high = middle else low = middle + 1
    }
    min = low
    val (gone, kept) = segments.partition(_.endOffset <= low * UnitBytes)
    segments = kept
    gone
  }

  /** Makes the units below `queueOffset` durable, and the names of the files they are in. */
  def flush(queueOffset: Long): Unit = {
    val current = segments
    // A queue deleted and made again meanwhile is shorter than the caller thinks.
    val upTo = Math.min(queueOffset, nextOffset)
    if (upTo > flushed) {
      val (from, to) = (flushed * UnitBytes, upTo * UnitBytes)
      current.foreach { segment =>
        val start = Math.max(from - segment.baseOffset, 0L)
        val stop = Math.min(to - segment.baseOffset, segment.capacity.toLong)
        if (start < stop) segment.force(start.toInt, stop.toInt)
      }
      flushed = upTo
    }
    if (current.lastOption.exists(_.baseOffset > namedUpTo) && files.exists(folder)) {
      Seq(folder, folder.getParent, folder.getParent.getParent).foreach(files.forceFolder)
      namedUpTo = current.last.baseOffset
    }
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
