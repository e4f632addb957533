package rmqordered.store

import java.io.IOException
import java.nio.file.attribute.{FileAttribute, PosixFilePermission, PosixFilePermissions}
import java.nio.file.{Files, Path}

/**
 * Files and folders that nobody but the broker's account can open: messages are in them, and what
 * is in them decides who owns what. Where a file system has no such rights they are what it gives.
 */
private[store] object OwnerOnly {
  private val folderRights = PosixFilePermissions.fromString("rwx------")
  private val fileRights = PosixFilePermissions.fromString("rw-------")
  private val isPosix = Path.of("").getFileSystem.supportedFileAttributeViews().contains("posix")

  /** For a call that creates a file. */
  val file: Array[FileAttribute[_]] = attributes(fileRights)

  /** For a call that creates a folder. */
  val folder: Array[FileAttribute[_]] = attributes(folderRights)

  /** Takes away what others may do in a folder that exists; one that is not ours stays as it is. */
  def close(folder: Path): Unit =
    if (isPosix && Files.isDirectory(folder))
      try
        if (Files.getPosixFilePermissions(folder) != folderRights) {
          val _ = Files.setPosixFilePermissions(folder, folderRights)
        }
      catch { case _: IOException => () }

  private def attributes(rights: java.util.Set[PosixFilePermission]): Array[FileAttribute[_]] =
    if (isPosix) Array(PosixFilePermissions.asFileAttribute(rights)) else Array.empty
}
