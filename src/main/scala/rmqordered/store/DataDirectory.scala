package rmqordered.store

import java.io.IOException
import java.nio.file.Path
import java.util.concurrent.Executor

import org.slf4j.LoggerFactory

/**
 * The folder that holds everything this broker keeps, owned by one broker at a time. What it makes
 * there only its own account can open.
 *
 * {{{
 * lock                    held (not just present) while a broker runs here
 * commitlog/              messages
 * consumequeue/TOPIC/ID/  index of each queue
 * index/                  index by key
 * config/NAME.json        topics, groups, offsets, key-value pairs, the store's checkpoint
 * config/queueLeases.N.*  leases: a base and the changes since
 * config/sendStreams.bin  the last stamps, as of an earlier end of the commit log
 * config/pops.bin         what is popped, likewise
 * config/runs.log         which runs of queries read under which leases
 * }}}
 */
final class DataDirectory private (val path: Path, val files: FileLayer, lock: AutoCloseable) {
  import DataDirectory._

  val commitLog: Path = path.resolve("commitlog")
  val consumeQueues: Path = path.resolve("consumequeue")
  val index: Path = path.resolve("index")
  private val config = path.resolve("config")

  /** A table's file. Names are this program's own, never a client's. */
  def table(name: String): AtomicFile = {
    files.createFolder(config)
    new AtomicFile(config.resolve(s"$name.json"), files)
  }

  /** A table's base and the changes since. */
  def journal(name: String): JournalFolder = {
    files.createFolder(config)
    new JournalFolder(config, name, files)
  }

  /** The snapshot of send streams. */
  def sendStreams: AtomicFile = {
    files.createFolder(config)
    new AtomicFile(config.resolve("sendStreams.bin"), files)
  }

  /** The picture of what is popped. */
  def pops: AtomicFile = {
    files.createFolder(config)
    new AtomicFile(config.resolve("pops.bin"), files)
  }

  /** A log of records, written by `writer`. */
  def records(name: String, writer: Executor, mayBeMissing: Boolean): RecordFile = {
    files.createFolder(config)
    val file = new RecordFile(config.resolve(s"$name.log"), writer, files)
    if (file.isNew && !mayBeMissing)
      logger.warn(
        "a file is missing and was recreated: what it held is forgotten file={}",
        file.name
      )
    file
  }

  /**
   * Folders of earlier versions were open. The data directory itself may be somebody else's, a
   * mounted one for instance, and stays as it is unless we make it.
   */
  private def closeToOthers(): Unit =
    Seq(commitLog, consumeQueues, index, config).foreach(files.closeToOthers)

  def close(): Unit = lock.close()
}

object DataDirectory {
  private val logger = LoggerFactory.getLogger(classOf[DataDirectory])

  /** @throws StoreError when the folder cannot be made or another broker has it */
  def open(path: Path, files: FileLayer = DiskFiles): DataDirectory =
    try {
      files.createFolder(path)
      val lock = files.lock(path.resolve("lock")).getOrElse {
        throw new StoreError(s"The data directory $path is in use by another broker.")
      }
      val directory = new DataDirectory(path, files, lock)
      directory.closeToOthers()
      directory
    } catch {
      case error: IOException =>
        throw new StoreError(s"The data directory $path cannot be used: $error.", error)
    }
}
