package rmqordered.store

import java.nio.file.Path
import java.nio.{BufferOverflowException, ByteBuffer}
import java.util.concurrent.Executor
import java.util.zip.CRC32

import org.slf4j.LoggerFactory

import rmqordered.util.{RecordLog, Survive}

/**
 * A file of records that only grows, until it is rewritten from what it stands for. Records that
 * gather while the disk works are forced together by the next turn of `writer` (group commit).
 *
 * {{{
 * magic 4 | length 4 | forced 4 | payload | CRC32 4, over the record's position and all before
 * }}}
 *
 * `forced` is where the batch of the record began: all before was on disk when it was written. So
 * the end of the file can be told from damage. A bad record that no later one calls forced is the
 * torn end of a write that nobody was told of, and is cut off; any other one is damage, and the
 * broker does not start.
 *
 * The disk blocks are claimed with the file: on a full disk there is still room for some records. A
 * write that failed leaves the file in doubt: then it is rewritten before anything is acknowledged.
 *
 * Thread-safe. `writer` runs one task at a time.
 */
final class RecordFile(
    path: Path,
    writer: Executor,
    files: FileLayer = DiskFiles,
    leastBytes: Int = RecordFile.LeastBytes
) extends RecordLog {
  import RecordFile._

  private val guard = new Object
  private var waiting = Vector.empty[Waiting]
  private var isScheduled = false
  @volatile private var whole: () => Seq[Array[Byte]] = () => Nil
  // From here on only one turn of the writer at a time.
  private val turn = new Object
  private var open: Option[Open] = None
  private var isInDoubt = false

  private val temporary = path.resolveSibling(path.getFileName.toString + ".tmp")

  override val recovered: Vector[Array[Byte]] = recover()

  override def name: String = path.toString

  /** Whether there was no file. From now on there is one, so that its absence means its loss. */
  val isNew: Boolean = open.isEmpty
  if (isNew) rewrite()

  override def replaceWith(whole: () => Seq[Array[Byte]]): Unit = this.whole = whole

  override def append(record: Array[Byte])(done: Option[Throwable] => Unit): Unit = {
    val isFirst = guard.synchronized {
      waiting = waiting :+ Waiting(record, done)
      val isFirst = !isScheduled
      isScheduled = true
      isFirst
    }
    if (isFirst)
      try writer.execute(() => flush())
      catch { case error: Throwable => giveUp(error) }
  }

  /** Writes what has gathered, and tells those who wait for it. */
  def flush(): Unit = turn.synchronized {
    val batch = take()
    if (batch.nonEmpty) {
      val failure = write(batch.map(_.record))
      batch.foreach(one => Survive(logger, "what waited for a record")(one.done(failure)))
    }
  }

  /** The broker stops, and its writer takes nothing more. */
  private def giveUp(error: Throwable): Unit =
    take().foreach(one => Survive(logger, "what waited for a record")(one.done(Some(error))))

  private def take(): Vector[Waiting] = guard.synchronized {
    val batch = waiting
    waiting = Vector.empty
    isScheduled = false
    batch
  }

  private def write(records: Vector[Array[Byte]]): Option[Throwable] =
    try {
      open.filter(file => !isInDoubt && file.hasRoomFor(records)) match {
        case Some(file) => file.add(records)
        case None => rewrite()
      }
      None
    } catch {
      // Whatever it is, nobody knows what is on disk; those who wait have to be told so.
      case error: Throwable =>
        isInDoubt = true
        logger.error("records could not be written file={}", name, error)
        Some(error)
    }

  private def rewrite(): Unit = {
    val records = whole()
    val bytes = records.iterator.map(record => (record.length + Overhead).toLong).sum
    val capacity = Math.max(leastBytes.toLong, 2 * bytes)
    if (capacity > Int.MaxValue) throw new StoreError(s"The records of $path take $bytes bytes.")
    val content = ByteBuffer.allocate(capacity.toInt)
    records.foreach(put(content, _, forced = 0))
    files.write(temporary, content.array())
    files.move(temporary, path)
    files.forceFolder(path.getParent)
    open = Some(new Open(files.map(path, capacity.toInt), content.position(), capacity.toInt))
    isInDoubt = false
  }

  private def recover(): Vector[Array[Byte]] = {
    files.delete(temporary)
    files.read(path).fold(Vector.empty[Array[Byte]]) { content =>
      val (records, end) = RecordFile.read(ByteBuffer.wrap(content))
      forcedBehind(ByteBuffer.wrap(content), end).foreach { at =>
        throw new StoreError(
          s"The file $path is damaged at byte $end: a whole record is expected there, because the " +
            s"one at byte $at was written later. Put a copy of the folder in its place."
        )
      }
      if (end < content.length) files.cut(path, end)
      if (content.length > 0) {
        val file = files.map(path, content.length)
        // After a kill it may have been read from memory.
        file.force(0, content.length)
        open = Some(new Open(file, end, content.length))
      }
      records
    }
  }

  /** The file while it is written to. */
  private final class Open(file: MappedFile, start: Int, capacity: Int) {
    private var end = start

    def hasRoomFor(records: Vector[Array[Byte]]): Boolean =
      records.iterator.map(record => (record.length + Overhead).toLong).sum <= capacity - end

    def add(records: Vector[Array[Byte]]): Unit = {
      val from = end
      val bytes = file.bytes.duplicate()
      bytes.position(from)
      records.foreach(put(bytes, _, forced = from))
      file.force(from, bytes.position() - from)
      end = bytes.position()
    }
  }
}

object RecordFile {
  private val logger = LoggerFactory.getLogger(classOf[RecordFile])

  // Hundreds of records, and quickly written.
  private val LeastBytes = 64 * 1024
  private val Magic = 0x524d5152
  private val HeadBytes = 12
  private val Overhead = HeadBytes + 4

  private final case class Waiting(record: Array[Byte], done: Option[Throwable] => Unit)

  private def put(into: ByteBuffer, record: Array[Byte], forced: Int): Unit = {
    val at = into.position()
    if (into.remaining() < record.length + Overhead) throw new BufferOverflowException
    into.putInt(Magic).putInt(record.length).putInt(forced).put(record)
    val crc = checksum(into, at, record.length)
    val _ = into.putInt(crc)
  }

  private def checksum(bytes: ByteBuffer, at: Int, length: Int): Int = {
    val crc = new CRC32
    crc.update(ByteBuffer.allocate(4).putInt(at).flip())
    val covered = bytes.duplicate()
    covered.limit(at + HeadBytes + length).position(at)
    crc.update(covered)
    crc.getValue.toInt
  }

  /** The length of the record that begins there, if a whole one does. */
  private def lengthAt(bytes: ByteBuffer, at: Int): Option[Int] =
    if (at + Overhead > bytes.capacity() || bytes.getInt(at) != Magic) None
    else {
      val length = bytes.getInt(at + 4)
      val fits = length >= 0 && length <= bytes.capacity() - at - Overhead
      Option.when(fits && bytes.getInt(at + HeadBytes + length) == checksum(bytes, at, length))(
        length
      )
    }

  /** The whole records from the beginning, and where they end. */
  private def read(bytes: ByteBuffer): (Vector[Array[Byte]], Int) = {
    val records = Vector.newBuilder[Array[Byte]]
    var at = 0
    var next = lengthAt(bytes, at)
    while (next.isDefined) {
      val record = new Array[Byte](next.get)
      bytes.get(at + HeadBytes, record)
      records += record
      at += next.get + Overhead
      next = lengthAt(bytes, at)
    }
    (records.result(), at)
  }

  /** A record behind `end` that was written when the byte there was on disk already. */
  private def forcedBehind(bytes: ByteBuffer, end: Int): Option[Int] = {
    val last = bytes.capacity() - Overhead
    def isOne(at: Int): Boolean =
      bytes.getInt(at) == Magic && lengthAt(bytes, at).isDefined && bytes.getInt(at + 8) > end
    var at = end + 1
    while (at <= last && !isOne(at)) at += 1
    Option.when(at <= last)(at)
  }
}
