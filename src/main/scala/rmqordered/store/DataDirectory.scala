package rmqordered.store

import java.io.IOException
import java.nio.channels.{FileChannel, FileLock, OverlappingFileLockException}
import java.nio.file.StandardOpenOption.{CREATE, WRITE}
import java.nio.file.{Files, Path}

/**
 * The folder that holds everything this broker keeps, owned by one broker at a time.
 *
 * {{{
 * lock                    held (not just present) while a broker runs here
 * commitlog/              messages
 * consumequeue/TOPIC/ID/  index of each queue
 * config/NAME.json        topics, groups, offsets, leases, key-value pairs
 * config/sendStreams.bin  the last stamps, as of an earlier end of the commit log
 * }}}
 */
final class DataDirectory private (val path: Path, channel: FileChannel, lock: FileLock) {
  val commitLog: Path = path.resolve("commitlog")
  val consumeQueues: Path = path.resolve("consumequeue")
  private val config = path.resolve("config")

  /** A table's file. Names are this program's own, never a client's. */
  def table(name: String): AtomicFile = {
    Files.createDirectories(config)
    new AtomicFile(config.resolve(s"$name.json"))
  }

  /** The snapshot of send streams. */
  def sendStreams: AtomicFile = {
    Files.createDirectories(config)
    new AtomicFile(config.resolve("sendStreams.bin"))
  }

  def close(): Unit = {
    lock.release()
    channel.close()
  }
}

object DataDirectory {

  /** @throws StoreError when the folder cannot be made or another broker has it */
  def open(path: Path): DataDirectory =
    try {
      Files.createDirectories(path)
      val channel = FileChannel.open(path.resolve("lock"), CREATE, WRITE)
      val lock =
        try channel.tryLock()
        catch { case _: OverlappingFileLockException => null }
      if (lock == null) {
        channel.close()
        throw new StoreError(s"The data directory $path is in use by another broker.")
      }
      new DataDirectory(path, channel, lock)
    } catch {
      case error: IOException =>
        throw new StoreError(s"The data directory $path cannot be used: $error.", error)
    }
}
