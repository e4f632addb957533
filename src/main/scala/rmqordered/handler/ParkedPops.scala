package rmqordered.handler

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean

import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.util.{Clock, Survive}

/**
 * A pop that waits for messages.
 *
 * @param topics
 *   where messages for it may arrive
 * @param recheckAt
 *   when it should look again though nothing has arrived, in wall time
 */
final class ParkedPop(
    val topics: Seq[String],
    val group: String,
    val queueId: Int,
    val connection: Connection,
    val deadline: Long,
    val recheckAt: Long,
    val expressionLength: Int,
    resume: Boolean => Unit,
    abandon: () => Unit
) {
  private val claimed = new AtomicBoolean(false)

  /** True for the one caller that may resume it. */
  def claim(): Boolean = claimed.compareAndSet(false, true)

  /** Looks again, for the last time if its time is over; when its client takes answers. */
  def run(isOver: Boolean): Unit = connection.whenWritable(() => resume(isOver))

  /** Its client is gone. */
  def forget(): Unit = abandon()
}

/**
 * Pops waiting for their topics. Woken by an arrival, by their deadline or by the broker's stop,
 * each exactly once; who finds nothing may wait again.
 *
 * Thread-safe. No threads of its own: a timer calls `expire`.
 */
final class ParkedPops(clock: Clock, capacity: Int) {
  import ParkedPops._

  private val byTopic = new ConcurrentHashMap[String, java.util.Set[ParkedPop]]()
  private val all = ConcurrentHashMap.newKeySet[ParkedPop]()
  private val space = new ParkingSpace(capacity)
  // Those that ever waited; others leave without being looked for.
  private val connections = ConcurrentHashMap.newKeySet[Connection]()
  @volatile private var closed = false

  /** Parks a pop, unless there is no room or the broker stops. */
  def park(pop: ParkedPop): Boolean =
    if (closed) false
    else if (!space.enter(pop.expressionLength)) false
    else {
      connections.add(pop.connection)
      all.add(pop)
      pop.topics.foreach { topic =>
        byTopic.compute(
          topic,
          (_, existing) => {
            val waiting = Option(existing).getOrElse(ConcurrentHashMap.newKeySet[ParkedPop]())
            waiting.add(pop)
            waiting
          }
        )
      }
      // A stop that came in between has not seen this one.
      if (closed) wake(all, isOver = true)(_ => true)
      true
    }

  /** How many of a group wait for a queue of a topic. */
  def waiting(topic: String, group: String, queueId: Int): Int =
    Option(byTopic.get(topic)).fold(0)(
      _.iterator().asScala.count(pop => pop.group == group && pop.queueId == queueId)
    )

  /** A message came into a queue of a topic. Who waits for another queue of it is left alone. */
  def arrived(key: QueueKey): Unit =
    Option(byTopic.get(key.topic)).foreach(pops =>
      wake(pops, isOver = false) { pop =>
        pop.queueId < 0 || pop.queueId == key.queueId || pop.topics.head != key.topic
      }
    )

  /** Something may be had from a topic: by everybody, or by one group. */
  def arrived(topic: String, group: Option[String] = None): Unit =
    Option(byTopic.get(topic)).foreach(pops =>
      wake(pops, isOver = false)(pop => group.forall(_ == pop.group))
    )

  /** Wakes one that should look again. */
  def wakeOne(pop: ParkedPop): Unit = if (take(pop)) pop.run(isOver = false)

  /** Wakes those whose time is over, and those that should look again. */
  def expire(): Unit = {
    val (now, wall) = (clock.monotonicMillis(), clock.wallMillis())
    wake(all, isOver = true)(_.deadline <= now)
    wake(all, isOver = false)(_.recheckAt <= wall)
  }

  /** Forgets the pops of a connection that is gone. */
  def disconnect(connection: Connection): Unit =
    if (connections.remove(connection))
      all.iterator().asScala.filter(_.connection eq connection).foreach { pop =>
        if (take(pop)) pop.forget()
      }

  /** Wakes everybody, for good. */
  def close(): Unit = {
    closed = true
    wake(all, isOver = true)(_ => true)
  }

  private def wake(pops: java.util.Set[ParkedPop], isOver: Boolean)(
      concerns: ParkedPop => Boolean
  ): Unit =
    pops.iterator().asScala.filter(concerns).toVector.foreach(pop =>
      if (take(pop)) Survive(logger, "answering a pop")(pop.run(isOver))
    )

  private def take(pop: ParkedPop): Boolean = {
    val isMine = pop.claim()
    if (isMine) {
      all.remove(pop)
      space.leave(pop.expressionLength)
      pop.topics.foreach { topic =>
        byTopic.computeIfPresent(
          topic,
          (_, waiting) => {
            waiting.remove(pop)
            if (waiting.isEmpty) null else waiting
          }
        )
      }
    }
    isMine
  }
}

object ParkedPops {
  private val logger = LoggerFactory.getLogger(classOf[ParkedPops])
}
