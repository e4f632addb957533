package rmqordered.store

import java.io.IOException
import java.nio.file.Path
import java.util.concurrent.atomic.AtomicInteger

import rmqordered.util.WorkTurn

/**
 * One file of the key index: a hash table whose entries are only ever added.
 *
 * {{{
 * slot:  i32 number of the newest entry of this slot, counted from 1; 0: none
 * entry: i32 hash | i64 commit log offset | i32 number of the entry before it in its slot
 * }}}
 *
 * Named by the end of the commit log when it was made, so that files are in the order of their
 * messages. Space is claimed whole before it gets that name. The slots are in the file once it is
 * full; until then they are in memory, and after a crash they are made anew from the entries: each
 * message changes one anywhere, and in mapped memory nearly every one of them would be a page
 * fault.
 *
 * Thread-safety: one writer (the append lock), `flush` by the checkpoint; readers may meet an entry
 * that is being written, so what they find is a hint to be checked.
 */
final class IndexFile private (
    val file: Path,
    val base: Long,
    mapping: MappedFile,
    shape: IndexShape
) {
  import IndexFile._

  private val bytes = mapping.bytes
  // Written in order but without a fence: an append adds thousands, and each would wait for the
  // memory that the one before it has touched.
  private val entries = new AtomicInteger()
  // While the file is being filled.
  @volatile private var slots: Option[Array[Int]] = None
  // By the checkpoint's thread only.
  private var flushed = 0

  def count: Int = entries.get

  def isFull: Boolean = count >= shape.entries

  /** Whether all that the file can hold is on disk. */
  def isFlushed: Boolean = flushed >= shape.entries

  /** Says that so many entries are added about now. */
  def noteAdding(count: Int): Unit = mapping.noteWrite(count * EntryBytes)

  def add(hash: Int, commitLogOffset: Long): Unit = {
    val filled = slots.getOrElse(throw new IllegalStateException(s"$file is not being filled"))
    val number = count + 1
    val at = entryAt(number)
    val slot = slotOf(hash)
    bytes.putInt(at, hash).putLong(at + 4, commitLogOffset).putInt(at + 12, filled(slot))
    filled(slot) = number
    if (number == shape.entries) writeSlots(filled)
    entries.setRelease(number)
  }

  private def writeSlots(filled: Array[Int]): Unit = {
    mapping.noteWrite(filled.length * SlotBytes)
    bytes.duplicate().position(0).asIntBuffer().put(filled)
    slots = None
  }

  /**
   * Calls `visit` with the commit log offsets under the cursor's hash, newest first, until it
   * returns false or the turn is over; whether this file has been gone through.
   */
  def lookUp(cursor: KeyCursor, turn: WorkTurn)(visit: Long => Boolean): Boolean = {
    // The count first: what was added before it is seen.
    if (cursor.base != base)
      cursor.enter(base, if (count == 0) 0 else newestOf(slotOf(cursor.hash)))
    var goOn = true
    while (goOn && cursor.number > 0 && cursor.number <= shape.entries) {
      val number = cursor.number
      val at = entryAt(number)
      mapping.noteRead(EntryBytes)
      val (hash, offset, before) = (bytes.getInt(at), bytes.getLong(at + 4), bytes.getInt(at + 12))
      // Chains run backwards only; a number that does not is an entry half written.
      cursor.number = if (before < number) before else 0
      turn.lookedAt()
      goOn = (hash != cursor.hash || visit(offset)) && !turn.isOver
    }
    goOn
  }

  /** After a stop: so many entries are good; the slots are made anew. */
  def resume(count: Int): Unit = {
    entries.set(0)
    slots = Some(new Array[Int](shape.slots))
    (1 to count).foreach { number =>
      val at = entryAt(number)
      add(bytes.getInt(at), bytes.getLong(at + 4))
    }
    flushed = 0
  }

  /** An earlier file: all its entries were flushed before the checkpoint. */
  def resumeFull(): Unit = {
    entries.set(shape.entries)
    flushed = shape.entries
  }

  /** The commit log offset of an entry, counted from 1. */
  def offsetOf(number: Int): Long = bytes.getLong(entryAt(number) + 4)

  def flush(): Unit = {
    val upTo = count
    if (upTo > flushed) {
      if (upTo == shape.entries) mapping.force(0, shape.slots * SlotBytes)
      mapping.force(entryAt(flushed + 1), (upTo - flushed) * EntryBytes)
      flushed = upTo
    }
  }

  private def newestOf(slot: Int): Int =
    slots.fold(bytes.getInt(slot * SlotBytes))(filled => filled(slot))

  private def slotOf(hash: Int): Int = hash & (shape.slots - 1)

  private def entryAt(number: Int): Int = shape.slots * SlotBytes + (number - 1) * EntryBytes
}

/** Where a search for a key is: in the file with this base, before the entry with this number. */
final class KeyCursor(val hash: Int) {
  private[store] var base = Long.MaxValue
  private[store] var number = 0

  private[store] def enter(file: Long, newest: Int): Unit = {
    base = file
    number = newest
  }
}

/** How large the files of the key index are; `slots` is a power of two. */
final case class IndexShape(slots: Int, entries: Int) {
  def bytes: Int = slots * IndexFile.SlotBytes + entries * IndexFile.EntryBytes
}

object IndexFile {
  val SlotBytes = 4
  val EntryBytes = 16

  /** Where a file is made before it is known which messages it will hold. */
  def spareIn(folder: Path): Path = folder.resolve("spare")

  /** Makes a spare file and claims its disk space; all of it, or none. */
  def claim(files: FileLayer, folder: Path, shape: IndexShape): MappedFile = {
    val file = spareIn(folder)
    files.delete(file)
    val mapping = files.map(file, shape.bytes)
    try files.zero(file, 0, shape.bytes)
    catch {
      case error: IOException =>
        files.delete(file)
        throw error
    }
    mapping
  }

  /** Makes the spare file the one for messages from `base` on; its name must be forced later. */
  def create(
      files: FileLayer,
      folder: Path,
      base: Long,
      shape: IndexShape,
      spare: MappedFile
  ): IndexFile = {
    val file = folder.resolve(MappedSegment.fileName(base))
    files.move(spareIn(folder), file)
    val made = new IndexFile(file, base, spare, shape)
    made.resume(0)
    made
  }

  /** A file that is there, or why it cannot be used. */
  def open(
      files: FileLayer,
      folder: Path,
      base: Long,
      shape: IndexShape
  ): Either[String, IndexFile] = {
    val file = folder.resolve(MappedSegment.fileName(base))
    val mapping = files.map(file, shape.bytes)
    val size = mapping.bytes.capacity()
    Either.cond(
      size == shape.bytes,
      new IndexFile(file, base, mapping, shape),
      s"index file $base has $size bytes, expected ${shape.bytes}"
    )
  }
}
