package rmqordered.handler

import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger, AtomicLong}

import org.slf4j.LoggerFactory

import scala.collection.immutable.VectorMap

import rmqordered.group.SubscriptionGroups
import rmqordered.model.Names
import rmqordered.offset.OffsetKey
import rmqordered.pop.{Bits, CheckPoint, PopTable}
import rmqordered.protocol.{DecodedRecord, MessageProperties}
import rmqordered.schedule.{Redelivery, Refitting}
import rmqordered.store.{AppendOutcome, LostMessage, MessageStore}
import rmqordered.util.Clock

/**
 * Brings back what was popped and not acknowledged in time: each message is stored again, in the
 * group's retry topic for its topic, or among the dead letters when it was tried too often.
 *
 * The first time-out brings a message back at once; from the second on it stays hidden before,
 * longer each time, unless the consumer itself chose when it wants to see it again.
 *
 * At least once: a message is settled after it was stored again, and what a crash kept from being
 * settled comes twice. No threads: a timer calls `run`.
 */
final class PopRevival(
    store: MessageStore,
    pops: PopTable,
    groups: SubscriptionGroups,
    creation: TopicCreation,
    levelMs: Vector[Long],
    clock: Clock,
    useV2: Boolean
) {
  import PopRevival._

  private val underWay = new AtomicInteger()

  /** Starts a batch, unless the last one is not through: so the disk sets the pace. */
  def run(): Unit =
    if (underWay.get() == 0 && store.isAccepting) {
      val now = clock.wallMillis()
      val waiting = pops.states.filter(_.due(now).hasNext).map(_.key)
      val batch = waiting.foldLeft(Vector.empty[(OffsetKey, CheckPoint)]) { (found, key) =>
        val room = MaxBatch - found.length
        found ++ pops.under(key)(_.takeDue(now, room)).map(key -> _)
      }
      underWay.addAndGet(batch.length)
      batch.foreach { case (key, point) => bringBack(key, point) }
    }

  private def bringBack(key: OffsetKey, point: CheckPoint): Unit = {
    val pending = point.pending
    val left = new AtomicInteger(pending.length)
    val done = new AtomicLong()
    pending.foreach { offset =>
      bringingBack(key, point, offset) { isDone =>
        if (isDone) done.getAndUpdate(bits => bits | Bits.of(point.offsets, Seq(offset)))
        if (left.decrementAndGet() == 0) {
          pops.under(key)(_.returned(point.id, done.get()))
          underWay.decrementAndGet()
        }
      }
    }
  }

  /** A message that cannot be brought back now is tried again, and holds up no other. */
  private def bringingBack(key: OffsetKey, point: CheckPoint, offset: Long)(
      done: Boolean => Unit
  ): Unit = {
    val isOpen = new AtomicBoolean(true)
    def once(isDone: Boolean): Unit = if (isOpen.getAndSet(false)) done(isDone)
    try bringBack(key, point, offset)(once)
    catch {
      case error: LostMessage =>
        logger.error("a popped message is lost: {}", error.getMessage)
        once(true)
      case error: Throwable =>
        logger.error("a popped message cannot be brought back at={} {}", key, offset, error)
        once(false)
    }
  }

  private def bringBack(key: OffsetKey, point: CheckPoint, offset: Long)(
      done: Boolean => Unit
  ): Unit =
    store.record(key.queue, offset) match {
      case None => done(true)
      case Some(record) =>
        val times = record.envelope.reconsumeTimes
        val isDead = groups.get(key.group).exists(times >= _.retryMaxTimes)
        if (!isDead && times > 0 && !point.isChosen) putOff(key, point, offset, times)(done)
        else {
          val properties = propertiesOf(point, record)
          // Without room for its handle it could not be acknowledged: there is no second try.
          val isFull = !Refitting.leave(HandleBytes, properties)
          append(record, target(key, record, isDead || isFull), properties)(done)
        }
    }

  /** Hides it once more instead of handing it to the next consumer at once. */
  private def putOff(key: OffsetKey, point: CheckPoint, offset: Long, times: Int)(
      done: Boolean => Unit
  ): Unit = {
    val delayMs = levelMs(Math.min(FirstDelayLevel + times - 1, levelMs.length) - 1)
    pops.under(key) { queue =>
      queue.state
        .change(point.id, offset, clock.wallMillis(), delayMs)
        .foreach(queue.record(_)(_ => ()))
    }
    done(true)
  }

  private def target(key: OffsetKey, record: DecodedRecord, isDead: Boolean): String =
    if (isDead) {
      logger.info("message goes to the dead letters group={} at={}", key.group, record.position)
      creation.dlqTopic(key.group).name
    } else {
      // With a name too long for a topic there is no second try.
      val retry = retryTopic(key)
      if (Names.topicProblem(retry).isEmpty) creation.popRetryTopic(retry).name
      else creation.dlqTopic(key.group).name
    }

  private def propertiesOf(point: CheckPoint, record: DecodedRecord): VectorMap[String, String] = {
    val before = Redelivery.propertiesOf(record).removed(MessageProperties.PopCheckpoint)
    if (before.contains(MessageProperties.FirstPopTime)) before
    else before.updated(MessageProperties.FirstPopTime, point.id.popTime.toString)
  }

  private def retryTopic(key: OffsetKey): String =
    if (Names.isRetryTopic(key.queue.topic)) key.queue.topic
    else if (useV2) Names.popRetryTopicV2(key.group, key.queue.topic)
    else Names.popRetryTopic(key.group, key.queue.topic)

  private def append(
      record: DecodedRecord,
      topic: String,
      properties: VectorMap[String, String]
  )(done: Boolean => Unit): Unit = {
    val content = Refitting.again(record.content, properties)
    val envelope = record.envelope.copy(
      topic = topic,
      queueId = 0,
      reconsumeTimes = record.envelope.reconsumeTimes + 1
    )
    store.append(envelope, Vector(content)) {
      case _: AppendOutcome.Stored => done(true)
      // Deleted this moment: the next round makes it anew.
      case AppendOutcome.NoTopic(_) | AppendOutcome.Unavailable(_) => done(false)
      case refused: AppendOutcome.Impossible =>
        logger.error(
          "a popped message is given up reason={} at={}",
          refused.reason,
          record.position
        )
        done(true)
    }
  }
}

object PopRevival {
  private val logger = LoggerFactory.getLogger(classOf[PopRevival])

  // A timer shared with others must not be held for long.
  private val MaxBatch = 1000

  // POP_CK, which every message from a retry topic gets: seven numbers and the broker's name.
  private val HandleBytes = 512

  // Ten seconds, as RocketMQ's first retry of a pulled message.
  private val FirstDelayLevel = 3
}
