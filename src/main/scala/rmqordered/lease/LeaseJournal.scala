package rmqordered.lease

import java.io.{ByteArrayOutputStream, IOException}

import org.slf4j.LoggerFactory

import rmqordered.lease.LeaseFrames.Tail
import rmqordered.util.{AppendFile, JournalFiles}

/**
 * What was found when the broker started.
 *
 * @param isWhole
 *   nothing is missing; otherwise epochs may have been given that are not recorded
 */
final case class LoadedLeases(recorded: RecordedLeases, isWhole: Boolean)

/**
 * The leases on disk: a base and the changes since. A change is appended and forced, so it costs
 * its own bytes, however many leases there are. When the changes have grown as long as the base, a
 * new base is written beside them, while further changes go to the next journal.
 *
 * Each start goes on in a new journal, and so does the first change after one that failed: behind
 * bytes of which nobody knows nothing is written.
 *
 * Not thread-safe but for `writeBase`: its owner guards it.
 *
 * @param earlier
 *   where earlier versions kept all leases
 */
final class LeaseJournal(
    files: JournalFiles,
    earlier: LeaseFile,
    capacity: Int = LeaseJournal.Capacity
) {
  import LeaseJournal._

  private var current: Option[Current] = None
  private var lastNumber = 0L
  private var bytesSinceBase = 0L
  private var found = 0
  @volatile private var baseBytes = 0L

  def name: String = files.name

  /**
   * Reads what is there, or nothing if there never was anything. Called once, first.
   *
   * @throws java.io.IOException
   *   naming file and byte when something is damaged: an older state would give epochs twice
   */
  def load(): Option[LoadedLeases] = {
    val base = files.bases.lastOption
    val journals = files.journals
    lastNumber = (journals.lastOption.toSeq ++ base :+ 0L).max
    val older = earlier.load()
    if (base.isEmpty && older.isEmpty && journals.isEmpty) None
    else {
      val wanted = journals.filter(_ >= base.getOrElse(0L))
      val read = wanted.map(number => number -> LeaseFrames.read(files.readJournal(number), number))
      read.foreach { case (number, found) => ensureUndamaged(number, found) }
      bytesSinceBase = read.map(_._2.end.toLong).sum
      found = read.length
      val since = read.flatMap(_._2.changes)
      val all = since.foldLeft(base.fold(RecordedLeases.none)(readBase))(_ changed _)
      // A journal is made, durably, before its base.
      val isComplete = (base.isDefined || older.isDefined) && base.forall(journals.contains)
      val isWhole = isComplete && read.forall(_._2.tail == Tail.Clean)
      Some(LoadedLeases(older.foldLeft(all)(_ merged _), isWhole))
    }
  }

  private def readBase(number: Long): RecordedLeases = {
    val content = files.readBase(number)
    baseBytes = content.length.toLong
    val found = LeaseFrames.read(content, number)
    if (found.changes.isEmpty || found.end < content.length) refuse(number, "base", found.end)
    found.changes.foldLeft(RecordedLeases.none)(_ changed _)
  }

  private def ensureUndamaged(number: Long, found: LeaseFrames.Read): Unit = found.tail match {
    case Tail.Clean => ()
    case Tail.Torn =>
      logger.warn("a lease journal ends torn file={}.{}.journal at={}", name, number, found.end)
    case Tail.Damaged => refuse(number, "journal", found.end)
  }

  private def refuse(number: Long, kind: String, at: Int): Nothing =
    throw new IOException(
      s"The file $name.$number.$kind is damaged at byte $at. Restore it from a backup, or delete " +
        "all files of that name: then nobody is known to hold a queue, and all epochs begin anew, " +
        "above the old ones."
    )

  /**
   * Records changes.
   *
   * @throws java.io.IOException
   *   when they may not survive; then nothing of them may be granted
   */
  def append(changes: LeaseChanges): Unit = {
    val payload = LeaseFrames.payload(changes)
    val length = LeaseFrames.HeaderBytes + payload.length
    val into = current.filter(_.file.room >= length).getOrElse(begin(length))
    // What failed may be there in part.
    current = None
    into.file.append(LeaseFrames.framed(payload, into.number, into.file.position))
    current = Some(into)
    bytesSinceBase += length
  }

  /** Begins the journal that follows the next base, and gives its number. */
  def rotate(): Long = {
    val number = begin(0).number
    bytesSinceBase = 0L
    found = 0
    number
  }

  private def begin(atLeast: Int): Current = {
    val number = lastNumber + 1
    val begun = Current(number, files.createJournal(number, Math.max(capacity, atLeast)))
    lastNumber = number
    current = Some(begun)
    begun
  }

  /** Whether the changes are long enough for a new base to be worth its bytes. */
  def isGrown: Boolean =
    found > MaxFound || bytesSinceBase > Math.max(baseBytes, capacity.toLong * MinJournals)

  /** Writes everything as it was when journal `number` began; what is older is deleted. */
  def writeBase(number: Long, pieces: Iterator[LeaseChanges]): Unit = {
    val content = new ByteArrayOutputStream()
    pieces.foreach(piece => content.write(LeaseFrames.frame(piece, number, content.size())))
    files.writeBase(number, content.toByteArray)
    baseBytes = content.size().toLong
    earlier.remove()
    files.deleteBelow(number)
  }
}

object LeaseJournal {
  private val logger = LoggerFactory.getLogger(classOf[LeaseJournal])

  private final case class Current(number: Long, file: AppendFile)

  /** Bytes of a journal; some ten thousand changes. */
  val Capacity: Int = 1024 * 1024

  private val MinJournals = 4

  // Each start leaves one.
  private val MaxFound = 8
}
