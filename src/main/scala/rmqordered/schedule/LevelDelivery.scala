package rmqordered.schedule

import java.io.IOException

import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import rmqordered.model.{Names, QueueKey}
import rmqordered.protocol.MessageProperties
import rmqordered.store.{DamagedQueue, LostMessage, MessageStore}
import rmqordered.util.{Clock, Json, SmallFile}

/**
 * Delivers messages with a delay level. All messages of a level wait equally long, so that they
 * come due in the order of their queue and one offset per level says how far delivery is. The
 * offsets are RocketMQ's delayOffset.json in strict JSON: `{"offsetTable":{"3":42}}`.
 *
 * Delivery is at least once: an offset is recorded after its message was stored again, and what a
 * crash kept from being recorded is delivered twice.
 *
 * No threads: a timer calls `run`, which delivers what is due and returns. Thread-safe.
 */
final class LevelDelivery(
    store: MessageStore,
    levelMs: Vector[Long],
    file: SmallFile,
    clock: Clock
) {
  import LevelDelivery._

  private val redelivery = new Redelivery(store)
  private val levels = levelMs.indices.map(new Level(_))
  private var changed = false
  Json.read(file).foreach(load)
  // Before anything is stored: the offsets above the end are about to be given to new messages.
  flush()

  /** Does nothing while the store refuses messages: they wait where they are, without a word. */
  def run(): Unit = if (store.isAccepting) levels.foreach(_.deliverDue())

  /** Where the oldest message that still waits is in the log: retention must stop before it. */
  def oldestWaiting: Option[Long] = synchronized(levels.flatMap(_.oldestWaiting).minOption)

  /**
   * Records how far delivery is, if that changed. What was delivered must be on disk before: else a
   * power failure takes it, and nobody delivers it again.
   */
  def flush(): Unit = synchronized {
    if (changed && store.persist()) {
      changed = false
      try file.replace(Json.bytes(encode()))
      catch {
        case error: IOException =>
          changed = true
          logger.error(
            "the progress of delayed messages could not be written file={}",
            file.name,
            error
          )
      }
    }
  }

  private def encode(): ObjectNode = {
    val root = Json.obj()
    val table = root.putObject("offsetTable")
    levels.foreach(level => if (level.next > 0) table.put(level.name, level.next))
    root
  }

  private def load(root: ObjectNode): Unit =
    root.path("offsetTable").properties().asScala.foreach { entry =>
      levels.find(_.name == entry.getKey).foreach(_.resumeAt(entry.getValue.asLong()))
    }

  /** One level. Guarded by the delivery's lock; the lock is not held while messages are stored. */
  private final class Level(index: Int) {
    val name: String = (index + 1).toString
    private val key = QueueKey(Names.ScheduleTopic, index)

    /** Everything below was delivered. */
    var next = 0L

    /** Delivered, at or above `next`: what was stored while an earlier message was refused. */
    private val done = mutable.HashSet.empty[Long]
    private var inFlight = 0

    def oldestWaiting: Option[Long] =
      store.commitLogOffset(key, Math.max(next, store.minOffset(key)))

    /** A power failure may have taken the end of the log, and offsets be given again. */
    def resumeAt(recorded: Long): Unit = {
      next = Math.min(recorded, store.maxOffset(key))
      if (next < recorded) {
        logger.warn("delivered further than the log level={} at={} end={}", name, recorded, next)
        changed = true
      }
    }

    /** Starts a batch, unless the last one is not through: so the disk sets the pace. */
    def deliverDue(): Unit = {
      val batch = LevelDelivery.this.synchronized {
        if (inFlight > 0) Vector.empty
        else {
          val due = dueOffsets()
          inFlight = due.length
          due
        }
      }
      batch.foreach(deliver)
    }

    private def dueOffsets(): Vector[Long] = {
      val now = clock.wallMillis()
      // Below that everything was delivered, though a crash kept it from being recorded.
      next = Math.max(next, store.minOffset(key))
      Iterator
        .iterate(next)(_ + 1)
        .takeWhile(offset => offset < store.maxOffset(key) && isDue(offset, now))
        .filterNot(done.contains)
        .take(MaxBatch)
        .toVector
    }

    /** A time further away than the level's delay means that the clock was set back: now, then. */
    private def isDue(offset: Long, now: Long): Boolean =
      store.storeTimestamp(key, offset).forall { stored =>
        val due = stored + levelMs(index)
        due <= now || due > now + levelMs(index)
      }

    private def deliver(offset: Long): Unit =
      try
        store.record(key, offset) match {
          case Some(record) => redelivery.deliver(record, spent)(finished(offset, _))
          case None => finished(offset, isDone = true)
        }
      catch {
        // Its queue is being rebuilt: later.
        case _: DamagedQueue => finished(offset, isDone = false)
        case error: LostMessage =>
          logger.error("a delayed message is lost: {}", error.getMessage)
          finished(offset, isDone = true)
      }

    private def finished(offset: Long, isDone: Boolean): Unit = LevelDelivery.this.synchronized {
      inFlight -= 1
      if (isDone) {
        done += offset
        while (done.remove(next)) next += 1
        changed = true
      }
    }
  }
}

object LevelDelivery {
  private val logger = LoggerFactory.getLogger(classOf[LevelDelivery])

  // As RocketMQ's messageTimeUp: the address stays, the delay is used up.
  private val spent = Seq(
    MessageProperties.Delay,
    MessageProperties.TimerDeliverMs,
    MessageProperties.TimerDelaySec
  )

  // A timer shared with others must not be held for long: ten thousand a second are enough.
  private val MaxBatch = 1000
}
