package rmqordered.store

import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.StandardOpenOption.{CREATE, READ, TRUNCATE_EXISTING, WRITE}
import java.nio.file.{Files, Path}

import rmqordered.util.SmallFile

/**
 * A small file replaced as a whole: written beside the old one, flushed, renamed over it, and the
 * folder flushed, so that the rename itself survives a power failure. After a crash either the old
 * or the new content is there. Replacements of one file are serialised.
 */
final class AtomicFile(path: Path) extends SmallFile {
  private val temporary = path.resolveSibling(path.getFileName.toString + ".tmp")

  override def name: String = path.toString

  override def read(): Option[Array[Byte]] =
    Option.when(Files.exists(path))(Files.readAllBytes(path))

  override def replace(content: Array[Byte]): Unit = synchronized {
    val channel = FileChannel.open(temporary, CREATE, TRUNCATE_EXISTING, WRITE)
    try {
      val bytes = ByteBuffer.wrap(content)
      while (bytes.hasRemaining) channel.write(bytes)
      channel.force(true)
    } finally channel.close()
    Files.move(temporary, path, ATOMIC_MOVE, REPLACE_EXISTING)
    AtomicFile.forceFolder(path.getParent)
  }
}

object AtomicFile {

  /** Makes the names in a folder durable. */
  def forceFolder(folder: Path): Unit = {
    val channel = FileChannel.open(folder, READ)
    try channel.force(true)
    finally channel.close()
  }
}
