package rmqordered.store

import java.nio.file.Path

import rmqordered.util.SmallFile

/**
 * A small file replaced as a whole: written beside the old one, flushed, renamed over it, and the
 * folder flushed, so that the rename itself survives a power failure. After a crash either the old
 * or the new content is there. Replacements of one file are serialised.
 *
 * The version before stays as `NAME.bak`, for the case that something else than this program
 * damages the file. A temporary file left by a crash is removed.
 */
final class AtomicFile(path: Path, files: FileLayer = DiskFiles) extends SmallFile {
  private val temporary = sibling(".tmp")
  private val backup = sibling(".bak")
  private val nextBackup = sibling(".bak.tmp")
  Seq(temporary, nextBackup).filter(files.exists).foreach(files.delete)

  override def name: String = path.toString

  override def read(): Option[Array[Byte]] = files.read(path)

  override def readPrevious(): Option[Array[Byte]] = files.read(backup)

  /** Puts the damaged file aside as `NAME.damaged` and the previous version in its place. */
  override def restorePrevious(): Unit = synchronized {
    if (files.exists(path)) files.move(path, sibling(".damaged"))
    files.link(backup, path)
    files.forceFolder(path.getParent)
  }

  override def replace(content: Array[Byte]): Unit = synchronized {
    files.write(temporary, content)
    if (files.exists(path)) {
      // A second name for the old bytes, which are durable already: no copy, no further flush.
      files.delete(nextBackup)
      files.link(path, nextBackup)
      files.move(nextBackup, backup)
    }
    files.move(temporary, path)
    files.forceFolder(path.getParent)
  }

  override def remove(): Unit = synchronized {
    Seq(path, backup).filter(files.exists).foreach(files.delete)
    files.forceFolder(path.getParent)
  }

  private def sibling(suffix: String): Path =
    path.resolveSibling(path.getFileName.toString + suffix)
}
