package rmqordered.stats

import java.time.ZoneId
import java.util.concurrent.ConcurrentHashMap

import rmqordered.model.Names
import rmqordered.util.Clock

/** Messages or requests per second over the last ten seconds, minute and ten minutes. */
final case class Rates(tenSeconds: Double, minute: Double, tenMinutes: Double)

/**
 * What came in and what went out. Everything is counted where it happens and sampled by a timer,
 * once a second as in RocketMQ's StoreStatsService; topics and groups every ten seconds. What a
 * topic or group did is forgotten when it did nothing for a minute, so that names cost nothing.
 *
 * Thread-safe; `sample` by one thread.
 */
final class Traffic(clock: Clock, zone: ZoneId) {
  import Traffic._

  private val put = new Meter(OverallSamples)
  private val found = new Meter(OverallSamples)
  private val missed = new Meter(OverallSamples)
  private val transferred = new Meter(OverallSamples)
  private val putByTopic = new ConcurrentHashMap[String, Meter]()
  private val gotByGroup = new ConcurrentHashMap[Reading, Meter]()

  /** Messages that clients stored, and that they got; the broker's own topics do not count. */
  val stored = new DailyTotal(zone, clock.wallMillis())
  val got = new DailyTotal(zone, clock.wallMillis())

  /** Messages became readable in a topic. */
  def onStored(topic: String, messages: Int): Unit = if (messages > 0) {
    put.add(messages.toLong)
    if (!Names.isSystemTopic(topic)) stored.add(messages.toLong)
    meter(putByTopic, topic).add(messages.toLong)
  }

  /** A pull was answered, with so many messages. */
  def onPulled(group: String, topic: String, messages: Int): Unit =
    if (messages > 0) {
      found.add(1)
      transferred.add(messages.toLong)
      if (!Names.isSystemTopic(topic)) got.add(messages.toLong)
      meter(gotByGroup, Reading(group, topic)).add(messages.toLong)
    } else missed.add(1)

  private def meter[K](table: ConcurrentHashMap[K, Meter], key: K): Meter =
    table.computeIfAbsent(
      key,
      _ => {
        val made = new Meter(MinuteSamples)
        made.sample(clock.monotonicMillis())
        made
      }
    )

  /** Periodic, once a second. */
  def sample(): Unit = {
    val now = clock.monotonicMillis()
    Seq(put, found, missed, transferred).foreach(_.sample(now))
    sampleNamed(putByTopic, now)
    sampleNamed(gotByGroup, now)
    Seq(stored, got).foreach(_.look(clock.wallMillis()))
  }

  private def sampleNamed[K](table: ConcurrentHashMap[K, Meter], now: Long): Unit =
    table.forEach { (key, meter) =>
      if (meter.lastSampledAt.forall(now - _ >= NamedIntervalMs)) {
        meter.sample(now)
        // What somebody adds to it just now is lost to the rates of one name, and to nothing else.
        if (meter.isIdle) { val _ = table.remove(key) }
      }
    }

  /** How many topics, and topics of groups, did something lately. */
  def namedCount: Int = putByTopic.size() + gotByGroup.size()

  def storedInAll: Long = put.total

  def storedRates: Rates = rates(put)

  def foundRates: Rates = rates(found)

  def missedRates: Rates = rates(missed)

  def transferredRates: Rates = rates(transferred)

  /** Messages per second that were stored in a topic during the last minute. */
  def storedRate(topic: String): Double =
    Option(putByTopic.get(topic)).fold(0.0)(_.rate(MinuteMs))

  /** Messages per second of a topic that a group got during the last minute. */
  def gotRate(group: String, topic: String): Double =
    Option(gotByGroup.get(Reading(group, topic))).fold(0.0)(_.rate(MinuteMs))

  private def rates(meter: Meter): Rates =
    Rates(meter.rate(TenSecondsMs), meter.rate(MinuteMs), meter.rate(TenMinutesMs))
}

object Traffic {
  private val TenSecondsMs = 10000L
  private val MinuteMs = 60000L
  private val TenMinutesMs = 600000L
  private val NamedIntervalMs = 10000L

  // Ten minutes of seconds, and both ends.
  private val OverallSamples = 601

  // A minute of ten seconds each, and both ends.
  private val MinuteSamples = 7

  private final case class Reading(group: String, topic: String)
}
