package rmqordered.store

import java.io.IOException
import java.nio.channels.{FileChannel, OverlappingFileLockException}
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.StandardOpenOption.{CREATE, READ, TRUNCATE_EXISTING, WRITE}
import java.nio.file.{Files, OpenOption, Path}
import java.nio.{ByteBuffer, MappedByteBuffer}

/** A file in memory: writes go to the page cache, `force` brings a range to the disk. */
trait MappedFile {

  /** The bytes; callers use absolute access or duplicate it first. */
  def bytes: ByteBuffer

  def force(from: Int, length: Int): Unit

  /**
   * Says that so many bytes in a row are read, or written, about now. Nothing depends on it but how
   * much of the file counts as this process's memory.
   */
  def noteRead(length: Int): Unit
  def noteWrite(length: Int): Unit
}

/**
 * What the store asks of a file system, and nothing more. Everything the store knows about
 * durability is said here, so that a test can put a disk underneath that loses power.
 *
 * Rules of a disk: bytes are durable after `force` or `write`; before that any part of them may be
 * there after a power failure, in any order, torn anywhere. Names (created, moved, linked, deleted)
 * are durable after `forceFolder`, those of folders at once.
 */
trait FileLayer {

  /** Maps a file, creating it with `capacity` bytes; one that exists keeps its size. */
  def map(file: Path, capacity: Int): MappedFile

  /** Claims disk blocks by writing zeroes; an IOException when there is no space. */
  def zero(file: Path, from: Int, until: Int): Unit

  /** Makes everything from `position` on zero, durably, without changing the size. */
  def cut(file: Path, position: Int): Unit

  def read(file: Path): Option[Array[Byte]]

  /** Writes a file whole and forces its bytes. */
  def write(file: Path, content: Array[Byte]): Unit

  /** Renames over whatever is there. */
  def move(from: Path, to: Path): Unit

  /** Gives a file a second name that is not taken yet. */
  def link(from: Path, to: Path): Unit

  /** Deletes a file if it is there. */
  def delete(file: Path): Unit

  def deleteTree(root: Path): Unit
  def exists(path: Path): Boolean

  /** Names of what is in a folder; none when there is no such folder. */
  def list(folder: Path): Seq[String]

  /** Makes a folder and those above it; unless `isForced`, the names must be forced later. */
  def createFolder(folder: Path, isForced: Boolean = true): Unit
  def forceFolder(folder: Path): Unit

  /** Takes away what others may do in a folder of ours that is there. */
  def closeToOthers(folder: Path): Unit = ()

  /** Bytes that can still be written where the folder is. */
  def usableBytes(folder: Path): Long

  /** Takes a lock that ends with the process; nothing when somebody else has it. */
  def lock(file: Path): Option[AutoCloseable]
}

/** The machine's own file system. */
object DiskFiles extends FileLayer {

  // So much of the files at most counts as memory of this process; the page cache keeps the rest.
  private val MappedBytes = 16L * 1024 * 1024
  private val PageBytes = 4096L
  // Linux maps the neighbours of a page that is read.
  private val ReadAroundBytes = 64L * 1024
  // Outside the heap: Java would copy an array there first, and keep a buffer of that size for each
  // thread that ever did so. In large pieces: the kernel then makes large pages of them.
  private lazy val zeroes = ByteBuffer.allocateDirect(ZeroedBytes).asReadOnlyBuffer()
  private val ZeroedBytes = 1024 * 1024
  private lazy val pages = new PageBudget(MappedBytes, PageBudget.giveBackToKernel)

  override def map(file: Path, capacity: Int): MappedFile = {
    val channel = create(file, READ)
    try {
      val size = if (channel.size() > 0) channel.size() else capacity.toLong
      if (size > Int.MaxValue)
        throw new StoreError(s"The file $file has $size bytes, at most ${Int.MaxValue} expected.")
      new Mapping(channel.map(FileChannel.MapMode.READ_WRITE, 0, size))
    } finally channel.close()
  }

  private final class Mapping(buffer: MappedByteBuffer) extends MappedFile {
    override def bytes: ByteBuffer = buffer
    private val entry = pages.enter(buffer)
    override def force(from: Int, length: Int): Unit = { val _ = buffer.force(from, length) }
    override def noteRead(length: Int): Unit = pages.used(entry, ReadAroundBytes + length)
    override def noteWrite(length: Int): Unit = pages.used(entry, PageBytes + length)
  }

  override def zero(file: Path, from: Int, until: Int): Unit = {
    val channel = FileChannel.open(file, WRITE)
    try {
      var at = from
      while (at < until) {
        val piece = zeroes.duplicate().limit(Math.min(zeroes.capacity(), until - at))
        at += channel.write(piece, at.toLong)
      }
    } finally channel.close()
  }

  override def cut(file: Path, position: Int): Unit = {
    val channel = FileChannel.open(file, READ, WRITE)
    try {
      val size = channel.size()
      if (position < size) {
        channel.truncate(position.toLong)
        channel.write(ByteBuffer.allocate(1), size - 1)
      }
      channel.force(true)
    } finally channel.close()
  }

  override def read(file: Path): Option[Array[Byte]] =
    Option.when(Files.exists(file))(Files.readAllBytes(file))

  override def write(file: Path, content: Array[Byte]): Unit = {
    val channel = create(file, TRUNCATE_EXISTING)
    try {
      val bytes = ByteBuffer.wrap(content)
      while (bytes.hasRemaining) channel.write(bytes)
      channel.force(true)
    } finally channel.close()
  }

  private def create(file: Path, option: OpenOption): FileChannel =
    FileChannel.open(file, java.util.Set.of(CREATE, WRITE, option), OwnerOnly.file: _*)

  override def move(from: Path, to: Path): Unit = {
    val _ = Files.move(from, to, ATOMIC_MOVE, REPLACE_EXISTING)
  }

  override def link(from: Path, to: Path): Unit =
    try { val _ = Files.createLink(to, from) }
    catch {
      // Not every file system has links. A copy is as good, only slower.
      case _: UnsupportedOperationException => write(to, Files.readAllBytes(from))
    }

  override def delete(file: Path): Unit = { val _ = Files.deleteIfExists(file) }

  override def deleteTree(root: Path): Unit =
    if (Files.exists(root)) {
      val paths = Files.walk(root)
      try
        paths.sorted(java.util.Comparator.reverseOrder[Path]()).forEach(path => Files.delete(path))
      finally paths.close()
    }

  override def exists(path: Path): Boolean = Files.exists(path)

  override def list(folder: Path): Seq[String] =
    if (!Files.isDirectory(folder)) Nil
    else {
      val files = Files.list(folder)
      try {
        val names = Vector.newBuilder[String]
        files.forEach(file => { val _ = names += file.getFileName.toString })
        names.result()
      } finally files.close()
    }

  override def createFolder(folder: Path, isForced: Boolean): Unit =
    if (!Files.isDirectory(folder)) {
      val parent = folder.toAbsolutePath.getParent
      if (parent != null) createFolder(parent, isForced)
      Files.createDirectories(folder, OwnerOnly.folder: _*)
      if (parent != null && isForced) forceFolder(parent)
    }

  override def forceFolder(folder: Path): Unit = {
    val channel = FileChannel.open(folder, READ)
    try channel.force(true)
    finally channel.close()
  }

  override def closeToOthers(folder: Path): Unit = OwnerOnly.close(folder)

  override def usableBytes(folder: Path): Long = Files.getFileStore(folder).getUsableSpace

  override def lock(file: Path): Option[AutoCloseable] = {
    val channel = create(file, READ)
    val lock =
      try channel.tryLock()
      catch {
        case _: OverlappingFileLockException => null
        case error: IOException =>
          channel.close()
          throw error
      }
    if (lock == null) {
      channel.close()
      None
    } else
      Some { () =>
        lock.release()
        channel.close()
      }
  }
}
