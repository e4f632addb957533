package rmqordered.store

import java.nio.file.Path

import rmqordered.util.WorkTurn

/**
 * Finds messages by key: files of hash tables over the commit log (`IndexFile`), the newest one
 * being filled. It knows hashes only; whoever looks something up checks the message itself.
 *
 * Thread-safety: changes under the store's append lock, lookups by any thread. After a crash the
 * entries below the checkpoint are there and the others are added again from the log. Memory: none
 * but the page cache.
 */
final class KeyIndex(files: FileLayer, folder: Path, shape: IndexShape) extends Growing {
  @volatile private var tables: Vector[IndexFile] = Vector.empty
  // Those with room, in order: one, or more within an append that fills several.
  private var filling: Vector[IndexFile] = Vector.empty
  // Those that may hold entries not flushed yet.
  private var unflushed: Vector[IndexFile] = Vector.empty
  // Whether a file has a name that may not be on disk yet.
  private var hasNewName = false
  // The next file, claimed already but without a name of its own. Made and taken under a lock.
  @volatile private var spare: Option[MappedFile] = None
  private val makingFile = new Object

  /** Claims disk space for so many entries of messages from `logEnd` on. */
  def ensureRoom(count: Int, logEnd: Long): Unit = {
    var room = filling.iterator.map(table => shape.entries - table.count).sum
    if (tables.isEmpty) files.createFolder(folder)
    while (room < count) {
      addFile(logEnd)
      room += shape.entries
    }
    filling.lastOption.foreach(_.noteAdding(Math.min(count, shape.entries)))
  }

  private def addFile(logEnd: Long): Unit = makingFile.synchronized {
    val base = tables.lastOption.fold(logEnd)(last => Math.max(logEnd, last.base + 1))
    val claimed = spare.getOrElse(IndexFile.claim(files, folder, shape))
    spare = None
    val made = IndexFile.create(files, folder, base, shape, claimed)
    synchronized {
      tables = tables :+ made
      filling = filling :+ made
      unflushed = unflushed :+ made
      hasNewName = true
    }
  }

  /** A file is claimed whole, which takes a while: the next one when half of this one is used. */
  override def isShort: Boolean =
    spare.isEmpty && tables.lastOption.exists(_.count > shape.entries / 2)

  override def claimAhead(): Unit = makingFile.synchronized {
    if (isShort) spare = Some(IndexFile.claim(files, folder, shape))
  }

  def add(hashes: Array[Int], commitLogOffset: Long): Unit = {
    // A loop, not foreach: this runs for every message and must not box.
    var i = 0
    while (i < hashes.length) {
      val table = filling.head
      table.add(hashes(i), commitLogOffset)
      if (table.isFull) filling = filling.tail
      i += 1
    }
  }

  /**
   * Calls `visit` with the places of messages that may have the key, newest first, from where the
   * cursor is until it returns false or the turn is over; whether there are no more.
   */
  def lookUp(cursor: KeyCursor, turn: WorkTurn)(visit: Long => Boolean): Boolean =
    tables.reverseIterator.filter(_.base <= cursor.base).forall(_.lookUp(cursor, turn)(visit))

  /** How far the index has come. */
  def position: Option[IndexPosition] =
    tables.filter(_.count > 0).lastOption.map(last => IndexPosition(last.base, last.count))

  /** Makes every entry durable that was added before the call. */
  def flush(): Unit = {
    val (pending, isNamedAnew) = synchronized {
      val found = (unflushed, hasNewName)
      hasNewName = false
      found
    }
    if (isNamedAnew) files.forceFolder(folder)
    pending.foreach(_.flush())
    synchronized {
      // Not those that are full by now: an append may have filled one since.
      unflushed = unflushed.filterNot(_.isFlushed)
    }
  }

  /**
   * Goes on with the files on disk.
   *
   * @return
   *   why that is not possible
   */
  def resume(position: Option[IndexPosition], logOffset: Long): Option[String] = {
    files.delete(IndexFile.spareIn(folder))
    val bases = MappedSegment.list(files, folder)
    val last = position.fold(-1L)(_.file)
    bases.filter(_ > last).foreach(base =>
      files.delete(folder.resolve(MappedSegment.fileName(base)))
    )
    val opened = bases.filter(_ <= last).map(base => IndexFile.open(files, folder, base, shape))
    opened.collectFirst { case Left(problem) => problem }.orElse {
      tables = opened.collect { case Right(table) => table }
      unflushed = tables.takeRight(1)
      position.flatMap(at => resumeLast(at, logOffset))
    }
  }

  private def resumeLast(at: IndexPosition, logOffset: Long): Option[String] = {
    tables.dropRight(1).foreach(_.resumeFull())
    tables.lastOption match {
      case Some(table) if table.base == at.file && at.entries > 0 && at.entries <= shape.entries =>
        val newest = table.offsetOf(at.entries)
        if (newest < 0 || newest >= logOffset) Some(s"index file ${at.file} ends at $newest")
        else {
          table.resume(at.entries)
          filling = Vector(table).filterNot(_.isFull)
          None
        }
      case _ => Some(s"index file ${at.file} is missing")
    }
  }

  /** Gives up the files that hold only messages below a commit log offset; gives their names. */
  def retire(logMin: Long): Vector[Path] = synchronized {
    val gone =
      tables.zip(tables.drop(1)).takeWhile { case (_, next) => next.base <= logMin }.map(_._1)
    tables = tables.drop(gone.length)
    filling = filling.filterNot(gone.contains)
    unflushed = unflushed.filterNot(gone.contains)
    gone.map(_.file)
  }

  def clear(): Unit = {
    tables = Vector.empty
    filling = Vector.empty
    unflushed = Vector.empty
    files.deleteTree(folder)
  }
}

object KeyIndex {

  /**
   * Some hundred thousand messages a file, 5 MiB: few files to look into, little to claim at once.
   */
  val DefaultShape: IndexShape = IndexShape(slots = 1 << 18, entries = 1 << 18)
}
