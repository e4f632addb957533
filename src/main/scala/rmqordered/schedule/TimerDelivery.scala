package rmqordered.schedule

import java.io.IOException
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.collection.mutable

import rmqordered.model.{Names, QueueKey}
import rmqordered.protocol.MessageProperties
import rmqordered.store.{DamagedQueue, LostMessage, MessageStore}
import rmqordered.util.{Clock, Json, SmallFile}

/**
 * Delivers messages at a time of their own. They wait in one queue of the log; a heap in memory has
 * the order of their times and is made again from the queue after a start.
 *
 * What was delivered is recorded as a `Progress`: of the messages below `scannedTo`, those due up
 * to `deliveredUpTo` are done, all others are not. So the record stays small however many wait, and
 * a clock that is set back can only repeat deliveries, never lose one.
 *
 * Delivery is at least once. No threads: a timer calls `run`. Thread-safe.
 */
final class TimerDelivery(store: MessageStore, file: SmallFile, clock: Clock, capacity: Int) {
  import TimerDelivery._

  private val key = QueueKey(Names.TimerTopic, 0)
  private val redelivery = new Redelivery(store)
  private val recorded = Json.read(file).fold(Progress(0L, 0L, 0L))(Progress.decode)
  // A power failure may have taken the end of the log, and offsets recorded here be given again.
  private var progress = recorded.within(store.maxOffset(key))
  private var changed = progress != recorded
  private val waiting = mutable.PriorityQueue.empty[Entry](soonestFirst)
  // Offsets below are in the heap, under way, or done.
  @volatile private var seen = progress.firstPending
  @volatile private var waitingCount = 0
  private var underWay = Vector.empty[Entry]
  private var afterBatch = progress
  private val inFlight = new AtomicInteger()
  private val refused = new ConcurrentLinkedQueue[Entry]()
  // Before anything is stored, or a second failure would find the old progress.
  flush()

  /** Whether one more message may wait. */
  def hasRoom: Boolean = waitingCount + (store.maxOffset(key) - seen) < capacity

  /** Delivers what is due, unless the last batch is not through: so the disk sets the pace. */
  def run(): Unit = {
    val batch = synchronized {
      if (!settle()) Vector.empty
      else {
        see()
        // After a start nothing goes out before all that may be done already has been looked at.
        // Nor while the store refuses messages: they wait where they are, without a word.
        if (seen < progress.scannedTo || !store.isAccepting) Vector.empty else takeDue()
      }
    }
    batch.foreach(deliver)
  }

  /** Where the oldest message that still waits is in the log: retention must stop before it. */
  def oldestWaiting: Option[Long] = synchronized {
    store.commitLogOffset(key, Math.max(firstPending, store.minOffset(key)))
  }

  private def firstPending: Long =
    (waiting.iterator ++ underWay).map(_.offset).minOption.getOrElse(seen)

  /** Records how far delivery is, if that changed, once what was delivered is on disk. */
  def flush(): Unit = synchronized {
    val _ = settle()
    if (changed && store.persist()) {
      changed = false
      try file.replace(Json.bytes(progress.copy(firstPending = firstPending).encode))
      catch {
        case error: IOException =>
          changed = true
          logger.error(
            "the progress of timed messages could not be written file={}",
            file.name,
            error
          )
      }
    }
  }

  /** Closes the books on the last batch; false while it is not through. */
  private def settle(): Boolean =
    if (inFlight.get() > 0) false
    else {
      if (underWay.nonEmpty) {
        if (refused.isEmpty) {
          progress = afterBatch
          changed = true
        }
        underWay = Vector.empty
        Iterator.continually(refused.poll()).takeWhile(_ != null).foreach(waiting.enqueue(_))
      }
      true
    }

  /** Takes messages that are new in the queue into the heap. */
  private def see(): Unit = {
    var offset = Math.max(seen, store.minOffset(key))
    val end = Math.min(store.maxOffset(key), offset + MaxSeen)
    var isReadable = true
    while (offset < end && isReadable) {
      try store.record(key, offset).foreach { record =>
          val time = Redelivery
            .propertiesOf(record)
            .get(MessageProperties.TimerOutMs)
            .flatMap(_.toLongOption)
            .getOrElse(0L)
          if (!progress.covers(offset, time)) waiting.enqueue(Entry(time, offset))
        }
      catch {
        // Its queue is being rebuilt: from here on later.
        case _: DamagedQueue => isReadable = false
        case error: LostMessage => logger.error("a timed message is lost: {}", error.getMessage)
      }
      if (isReadable) offset += 1
    }
    seen = Math.max(seen, offset)
    waitingCount = waiting.size
  }

  private def takeDue(): Vector[Entry] = {
    val now = clock.wallMillis()
    val due = Vector.newBuilder[Entry]
    var count = 0
    while (count < MaxBatch && waiting.headOption.exists(_.time <= now)) {
      due += waiting.dequeue()
      count += 1
    }
    underWay = due.result()
    // Of the messages seen, those that still wait are later than this.
    val upTo = waiting.headOption.fold(now)(head => Math.min(now, head.time - 1))
    afterBatch = Progress(upTo, seen, 0L)
    inFlight.set(underWay.length)
    waitingCount = waiting.size
    underWay
  }

  private def deliver(entry: Entry): Unit = {
    def finished(isDone: Boolean): Unit = {
      if (!isDone) refused.add(entry)
      val _ = inFlight.decrementAndGet()
    }
    try
      store.record(key, entry.offset) match {
        case Some(record) => redelivery.deliver(record, spent)(finished)
        case None => finished(isDone = true)
      }
    catch {
      case _: DamagedQueue => finished(isDone = false)
      case error: LostMessage =>
        logger.error("a timed message is lost: {}", error.getMessage)
        finished(isDone = true)
    }
  }
}

object TimerDelivery {
  private val logger = LoggerFactory.getLogger(classOf[TimerDelivery])

  // As RocketMQ's TimerMessageStore: the times stay, the address is used up.
  private val spent = Seq(MessageProperties.RealTopic, MessageProperties.RealQueueId)

  private val MaxBatch = 1000

  // Many may have waited when the broker started; the timer has other tasks too.
  private val MaxSeen = 20000

  private final case class Entry(time: Long, offset: Long)

  private val soonestFirst: Ordering[Entry] =
    Ordering.by[Entry, (Long, Long)](entry => (entry.time, entry.offset)).reverse

  private final case class Progress(deliveredUpTo: Long, scannedTo: Long, firstPending: Long) {
    def covers(offset: Long, time: Long): Boolean = offset < scannedTo && time <= deliveredUpTo

    def within(end: Long): Progress =
      copy(scannedTo = Math.min(scannedTo, end), firstPending = Math.min(firstPending, end))

    def encode: ObjectNode =
      Json
        .obj()
        .put("deliveredUpTo", deliveredUpTo)
        .put("firstPending", firstPending)
        .put("scannedTo", scannedTo)
  }

  private object Progress {
    def decode(root: ObjectNode): Progress = Progress(
      root.path("deliveredUpTo").asLong(),
      root.path("scannedTo").asLong(),
      root.path("firstPending").asLong()
    )
  }
}
