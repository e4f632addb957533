package rmqordered.store

import java.io.IOException
import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey

/** Where a queue's messages are is not known just now; it is found out from the log. */
final class DamagedQueue(key: QueueKey, queueOffset: Long, where: String)
    extends IOException(
      s"the consume queue of $key is damaged: its unit $queueOffset points $where; it is being " +
        "rebuilt from the commit log, retry later"
    )

/** A message was there once, and its bytes are gone. */
final class LostMessage(key: QueueKey, queueOffset: Long)
    extends IOException(
      s"message $queueOffset of $key is lost: its bytes in the commit log are damaged; restore the " +
        "log from a backup, or go on reading behind it"
    )

/**
 * What was found wrong on the disk since the start: reported here by whoever meets it, once in the
 * log and counted for the runtime info.
 *
 * Thread-safe.
 */
final class StoreFaults {
  import StoreFaults._

  private val queues = ConcurrentHashMap.newKeySet[QueueKey]()
  private val units = new AtomicLong()
  private val appends = new AtomicLong()

  /** Units of consume queues that were wrong and were written again. */
  def rebuiltUnits: Long = units.get

  /** Appends that are not as they were written. */
  def damagedAppends: Long = appends.get

  /** Bytes of the log do not match their seal any more. */
  def damagedAppend(file: Path, from: Int, until: Int, reason: String): Unit = {
    appends.incrementAndGet()
    logger.error(
      "the commit log is damaged; its messages there are not served file={} bytes={}-{} problem={}",
      file,
      from,
      until,
      reason
    )
  }

  /** A unit points where no such message is; gives the error for whoever has asked. */
  def damagedUnit(key: QueueKey, queueOffset: Long, where: String): DamagedQueue = {
    if (queues.add(key))
      logger.error("a consume queue is damaged queue={} unit={} points={}", key, queueOffset, where)
    new DamagedQueue(key, queueOffset, where)
  }

  /** The queues that wait to be rebuilt. */
  def damagedQueues: Vector[QueueKey] = queues.asScala.toVector

  def rebuilt(key: QueueKey, count: Int): Unit = {
    queues.remove(key)
    units.addAndGet(count.toLong)
    logger.warn("a consume queue was rebuilt from the commit log queue={} units={}", key, count)
  }
}

object StoreFaults {
  private val logger = LoggerFactory.getLogger(classOf[StoreFaults])
}
