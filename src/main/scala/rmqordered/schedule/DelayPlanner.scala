package rmqordered.schedule

import scala.collection.immutable.VectorMap

import rmqordered.model.{Names, QueueKey}
import rmqordered.protocol.MessageProperties
import rmqordered.util.Clock

/** Where a message is stored now, and with which properties. */
final case class Placement(queue: QueueKey, properties: VectorMap[String, String])

/** What delays are possible. Level n, counted from 1, waits for the n-th of `levelMs`. */
final case class DelayLimits(levelMs: Vector[Long], maxTimerDelayMs: Long)

/**
 * Reads from a message's properties whether it is to be delivered later, and if so sends it where
 * RocketMQ lets such messages wait: a delay level in `SCHEDULE_TOPIC_XXXX`, queue level - 1, a time
 * of its own in `rmq_sys_wheel_timer`. Where it was meant for is kept in its properties.
 *
 * @param hasRoom
 *   whether one more message may wait for a time of its own
 */
final class DelayPlanner(limits: DelayLimits, clock: Clock, hasRoom: () => Boolean) {

  /** The placement, or a sentence saying why the message's delay is impossible. */
  def place(
      target: QueueKey,
      properties: VectorMap[String, String]
  ): Either[String, Placement] =
    level(properties).flatMap {
      case 0 =>
        if (isTimed(properties)) timed(target, properties) else Right(Placement(target, properties))
      case wanted =>
        val level = Math.min(wanted, limits.levelMs.length)
        // A level wins over a time; RocketMQ drops the latter too.
        val kept = properties
          .removedAll(DelayPlanner.timerProperties)
          .updated(MessageProperties.Delay, level.toString)
        Right(Placement(QueueKey(Names.ScheduleTopic, level - 1), addressed(target, kept)))
    }

  private def level(properties: VectorMap[String, String]): Either[String, Int] =
    properties.get(MessageProperties.Delay) match {
      case None => Right(0)
      case Some(text) =>
        text.toIntOption
          .map(level => Math.max(level, 0))
          .toRight(s"the property ${MessageProperties.Delay} is not a number: '${text.take(40)}'")
    }

  /** A message that was delivered once keeps its times, but is not to wait again. */
  private def isTimed(properties: VectorMap[String, String]): Boolean =
    !properties.contains(MessageProperties.TimerOutMs) &&
      DelayPlanner.timerProperties.exists(properties.contains)

  private def timed(
      target: QueueKey,
      properties: VectorMap[String, String]
  ): Either[String, Placement] = {
    val now = clock.wallMillis()
    deliverAt(properties, now).flatMap { time =>
      if (time <= now) Right(Placement(target, properties))
      else if (time - now > limits.maxTimerDelayMs)
        Left(s"the delay time should not be bigger than the max delay ${limits.maxTimerDelayMs}ms")
      else if (!hasRoom()) Left("too many messages wait for their time already, try again later")
      else {
        val dated = properties.updated(MessageProperties.TimerOutMs, time.toString)
        Right(Placement(QueueKey(Names.TimerTopic, 0), addressed(target, dated)))
      }
    }
  }

  private def deliverAt(properties: VectorMap[String, String], now: Long): Either[String, Long] = {
    val times = Seq[(String, Long => Long)](
      MessageProperties.TimerDelaySec -> (seconds => now + Math.multiplyExact(seconds, 1000L)),
      MessageProperties.TimerDelayMs -> (millis => Math.addExact(now, millis)),
      MessageProperties.TimerDeliverMs -> identity
    )
    val (name, time) = times.find { case (name, _) => properties.contains(name) }.get
    val text = properties(name)
    try Right(time(text.toLong))
    catch {
      // A number that does not fit is as wrong as none.
      case _: NumberFormatException | _: ArithmeticException =>
        Left(s"the property $name is not a time: '${text.take(40)}'")
    }
  }

  private def addressed(
      target: QueueKey,
      properties: VectorMap[String, String]
  ): VectorMap[String, String] =
    properties
      .updated(MessageProperties.RealTopic, target.topic)
      .updated(MessageProperties.RealQueueId, target.queueId.toString)
}

object DelayPlanner {
  private val timerProperties = Seq(
    MessageProperties.TimerDelaySec,
    MessageProperties.TimerDelayMs,
    MessageProperties.TimerDeliverMs
  )
}
