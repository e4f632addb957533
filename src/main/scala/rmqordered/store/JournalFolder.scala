package rmqordered.store

import java.io.{IOException, UncheckedIOException}
import java.nio.file.Path

import rmqordered.util.{AppendFile, JournalFiles}

/**
 * The base and the journals of one table, as `NAME.NUMBER.base` and `NAME.NUMBER.journal` in a
 * folder. A journal has its size from the beginning and its disk blocks claimed, so that an append
 * on a full disk finds them; it ends where the zeroes begin.
 */
final class JournalFolder(folder: Path, table: String, files: FileLayer) extends JournalFiles {
  import JournalFolder._

  override def name: String = folder.resolve(table).toString

  override def bases: Seq[Long] = numbers(Base)

  override def journals: Seq[Long] = numbers(Journal)

  override def readBase(number: Long): Array[Byte] = read(file(number, Base))

  override def readJournal(number: Long): Array[Byte] = read(file(number, Journal))

  override def writeBase(number: Long, content: Array[Byte]): Unit =
    new AtomicFile(file(number, Base), files).replace(content)

  override def createJournal(number: Long, capacity: Int): AppendFile = {
    val path = file(number, Journal)
    files.delete(path)
    val mapped = files.map(path, capacity)
    files.zero(path, 0, capacity)
    files.forceFolder(folder)
    new MappedAppendFile(mapped)
  }

  override def deleteBelow(number: Long): Unit = {
    bases.filter(_ < number).foreach(old => files.delete(file(old, Base)))
    journals.filter(_ < number).foreach(old => files.delete(file(old, Journal)))
  }

  private def read(path: Path): Array[Byte] =
    files.read(path).getOrElse(throw new IOException(s"The file $path is gone."))

  private def file(number: Long, kind: String): Path = folder.resolve(s"$table.$number.$kind")

  private def numbers(kind: String): Seq[Long] =
    files
      .list(folder)
      .flatMap(_.split('.') match {
        case Array(`table`, number, `kind`) => number.toLongOption
        case _ => None
      })
      .sorted
}

object JournalFolder {
  private val Base = "base"
  private val Journal = "journal"

  private final class MappedAppendFile(mapped: MappedFile) extends AppendFile {
    private var end = 0

    override def position: Int = end

    override def room: Int = mapped.bytes.capacity() - end

    override def append(bytes: Array[Byte]): Unit = {
      if (bytes.length > room)
        throw new IOException(s"a piece of ${bytes.length} bytes, room for $room")
      mapped.bytes.duplicate().position(end).put(bytes)
      mapped.noteWrite(bytes.length)
      try mapped.force(end, bytes.length)
      catch { case error: UncheckedIOException => throw error.getCause }
      end += bytes.length
    }
  }
}
