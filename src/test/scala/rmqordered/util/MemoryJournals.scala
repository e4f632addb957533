package rmqordered.util

import java.io.IOException

import scala.collection.mutable

/** Bases and journals without a disk, that can be told to fail; they count what is written. */
final class MemoryJournals extends JournalFiles {
  private val baseFiles = mutable.SortedMap.empty[Long, Array[Byte]]
  private val journalFiles = mutable.SortedMap.empty[Long, Array[Byte]]

  /** Nothing can be written; a half of what is appended is there all the same. */
  @volatile var isBroken = false

  /** Called before a piece is durable. */
  @volatile var onAppend: () => Unit = () => ()

  /** The lengths of the pieces that were appended. */
  @volatile var appends = Vector.empty[Int]

  override def name: String = "memory"
  override def bases: Seq[Long] = synchronized(baseFiles.keys.toVector)
  override def journals: Seq[Long] = synchronized(journalFiles.keys.toVector)
  override def readBase(number: Long): Array[Byte] = synchronized(baseFiles(number).clone())
  override def readJournal(number: Long): Array[Byte] = synchronized(journalFiles(number).clone())

  override def writeBase(number: Long, content: Array[Byte]): Unit = synchronized {
    ensureWorking()
    baseFiles(number) = content.clone()
  }

  override def createJournal(number: Long, capacity: Int): AppendFile = synchronized {
    ensureWorking()
    val content = new Array[Byte](capacity)
    journalFiles(number) = content
    new AppendFile {
      private var end = 0
      override def position: Int = end
      override def room: Int = capacity - end
      override def append(bytes: Array[Byte]): Unit = {
        onAppend()
        val part = if (isBroken) bytes.length / 2 else bytes.length
        System.arraycopy(bytes, 0, content, end, part)
        ensureWorking()
        end += bytes.length
        appends = appends :+ bytes.length
      }
    }
  }

  override def deleteBelow(number: Long): Unit = synchronized {
    baseFiles.filterInPlace((n, _) => n >= number)
    val _ = journalFiles.filterInPlace((n, _) => n >= number)
  }

  /** Changes a file as neither this program nor a power failure would. */
  def damage(number: Long, at: Int): Unit = spoil(journalFiles(number), at)

  def damageBase(number: Long, at: Int): Unit = spoil(baseFiles(number), at)

  private def spoil(content: Array[Byte], at: Int): Unit =
    synchronized { content(at) = (content(at) ^ 0x55).toByte }

  def forgetBases(): Unit = synchronized(baseFiles.clear())

  def forgetJournals(): Unit = synchronized(journalFiles.clear())

  def forget(): Unit = {
    forgetBases()
    forgetJournals()
  }

  private def ensureWorking(): Unit =
    if (isBroken) throw new IOException("no space left on the device")
}
