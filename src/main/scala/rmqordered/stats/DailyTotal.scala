package rmqordered.stats

import java.time.{Instant, LocalDate, ZoneId}
import java.util.concurrent.atomic.LongAdder

/**
 * A counter with its values at the last two midnights, as RocketMQ's BrokerStats: `now` minus
 * `todayMorning` is what today brought. Counts since the start; a restart begins at 0. Thread-safe.
 */
final class DailyTotal(zone: ZoneId, startMs: Long) {
  private val counted = new LongAdder()
  private var day = dayOf(startMs)
  private var lastMidnight = 0L
  private var midnightBefore = 0L

  def add(amount: Long): Unit = counted.add(amount)

  def now: Long = counted.sum()

  def todayMorning: Long = synchronized(lastMidnight)

  def yesterdayMorning: Long = synchronized(midnightBefore)

  /** Periodic. A clock that is set back into yesterday begins no new day. */
  def look(wallMs: Long): Unit = synchronized {
    val today = dayOf(wallMs)
    if (today.isAfter(day)) {
      day = today
      midnightBefore = lastMidnight
      lastMidnight = counted.sum()
    }
  }

  private def dayOf(wallMs: Long): LocalDate =
    Instant.ofEpochMilli(wallMs).atZone(zone).toLocalDate
}
