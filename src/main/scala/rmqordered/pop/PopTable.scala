package rmqordered.pop

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.offset.OffsetKey

/** Keeps records; `done` hears when a record is as durable as messages are, or why it is not. */
trait PopJournal {
  def append(record: PopRecord)(done: Option[String] => Unit): Unit
}

object PopJournal {

  /** Nothing is kept: the state is being read. */
  val none: PopJournal = new PopJournal {
    override def append(record: PopRecord)(done: Option[String] => Unit): Unit = done(None)
  }
}

/**
 * What is handed out, for all groups and queues.
 *
 * Thread-safe: one lock per group and queue, under which the state changes and its record goes into
 * the journal, so that both have the same order. Whoever holds one takes no second.
 */
final class PopTable {
  private val queues = new ConcurrentHashMap[OffsetKey, PoppedQueue]()
  @volatile private var journal: PopJournal = PopJournal.none

  /** From now on changes are kept. */
  def connect(target: PopJournal): Unit = journal = target

  /** Runs under the queue's lock. */
  def under[T](key: OffsetKey)(body: PoppedQueue => T): T = {
    val queue = queues.computeIfAbsent(key, new PoppedQueue(_, record => journal.append(record) _))
    queue.synchronized(body(queue))
  }

  /** A queue as it is now, if anybody popped there. */
  def state(key: OffsetKey): Option[QueueState] =
    Option(queues.get(key)).map(queue => queue.synchronized(queue.state))

  /** All queues, each as it is now. */
  def states: Iterator[QueueState] =
    queues.values().iterator().asScala.map(queue => queue.synchronized(queue.state))

  def removeTopic(topic: String): Unit = remove(_.queue.topic == topic)

  def removeGroup(group: String): Unit = remove(_.group == group)

  private def remove(matches: OffsetKey => Boolean): Unit =
    queues.keySet().iterator().asScala.filter(matches).foreach { key =>
      // The empty state stays until a restart: somebody may be waiting for its lock.
      under(key)(_.record(PopRecord.Forgotten(key))(_ => ()))
    }

  /** A record read from the journal. */
  def replay(record: PopRecord): Unit = under(record.key)(_.replay(record))

  def clear(): Unit = queues.clear()

  /**
   * Takes back what the log does not hold any more, and says whether there was any. Before anything
   * is popped.
   */
  def clampTo(maxOffset: QueueKey => Long): Boolean =
    queues.asScala.toVector.count { case (key, queue) =>
      queue.synchronized(queue.clamp(maxOffset(key.queue)))
    } > 0
}

/** One queue of one group; everything under its lock. */
final class PoppedQueue(key: OffsetKey, append: PopRecord => ((Option[String] => Unit) => Unit)) {
  private var current = QueueState(key)

  /** Check points being brought back: too late for acknowledgements. */
  private val returning = mutable.HashSet.empty[CheckPointId]

  def state: QueueState = current

  /** Changes the state and keeps the change. */
  def record(change: PopRecord)(done: Option[String] => Unit): Unit = {
    current = current.applied(change)
    append(change)(done)
  }

  /** Goes past messages nobody wants; a restart looks at them again. */
  def skipTo(next: Long): Unit = current = current.copy(next = Some(next))

  def replay(change: PopRecord): Unit = current = current.applied(change)

  def clamp(end: Long): Boolean = {
    val before = current
    current = before.clampedTo(end)
    current != before
  }

  def isReturning(id: CheckPointId): Boolean = returning.contains(id)

  /** Claims check points whose time is over; each is claimed by one caller. */
  def takeDue(now: Long, limit: Int): Vector[CheckPoint] = {
    val taken =
      current.due(now).filterNot(point => returning.contains(point.id)).take(limit).toVector
    returning ++= taken.map(_.id)
    taken
  }

  /** They are back with the group, as far as `bits` says; the rest is tried again. */
  def returned(id: CheckPointId, bits: Long): Unit = {
    if (bits != 0) record(PopRecord.Settled(key, id, bits))(_ => ())
    returning -= id
  }
}
