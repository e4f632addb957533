package rmqordered.stats

import java.time.ZoneId

import rmqordered.util.ManualClock

class TrafficSuite extends munit.FunSuite {
  private val dayMs = 86400000L

  private def traffic(clock: ManualClock): Traffic = new Traffic(clock, ZoneId.of("UTC"))

  /** A second each, with so many messages stored during it. */
  private def pass(clock: ManualClock, traffic: Traffic, seconds: Int, perSecond: Int): Unit =
    (1 to seconds).foreach { _ =>
      traffic.onStored("t", perSecond)
      clock.advance(1000)
      traffic.sample()
    }

  test("a rate is what was counted in its window, each window with its own") {
    val clock = new ManualClock()
    val counted = traffic(clock)
    counted.sample()
    pass(clock, counted, 570, perSecond = 1)
    pass(clock, counted, 20, perSecond = 10)
    pass(clock, counted, 10, perSecond = 40)
    assertEquals(
      counted.storedRates,
      Rates(40.0, (30 * 1 + 20 * 10 + 10 * 40) / 60.0, (570 + 200 + 400) / 600.0)
    )
    pass(clock, counted, 10, perSecond = 0)
    assertEquals(counted.storedRates.tenSeconds, 0.0)
    assertEquals(counted.storedInAll, 1170L)
  }

  test("before a window has passed the rate is that of the time since the start") {
    val clock = new ManualClock()
    val counted = traffic(clock)
    assertEquals(counted.storedRates, Rates(0.0, 0.0, 0.0))
    counted.sample()
    assertEquals(counted.storedRates, Rates(0.0, 0.0, 0.0))
    pass(clock, counted, 4, perSecond = 5)
    assertEquals(counted.storedRates, Rates(5.0, 5.0, 5.0))
  }

  test("pulls that find something are told from those that do not, and messages are counted") {
    val clock = new ManualClock()
    val counted = traffic(clock)
    counted.sample()
    counted.onPulled("g", "t", 32)
    counted.onPulled("g", "t", 8)
    counted.onPulled("g", "t", 0)
    clock.advance(1000)
    counted.sample()
    assertEquals(counted.foundRates.tenSeconds, 2.0)
    assertEquals(counted.missedRates.tenSeconds, 1.0)
    assertEquals(counted.transferredRates.tenSeconds, 40.0)
    assertEquals(counted.got.now, 40L)
  }

  test("topics and groups have rates of their own, over a minute, and are forgotten when idle") {
    val clock = new ManualClock()
    val counted = traffic(clock)
    (1 to 6).foreach { _ =>
      counted.onStored("t", 30)
      counted.onPulled("g", "t", 10)
      clock.advance(10000)
      counted.sample()
    }
    assertEquals((counted.storedRate("t"), counted.gotRate("g", "t")), (3.0, 1.0))
    assertEquals((counted.storedRate("u"), counted.gotRate("h", "t")), (0.0, 0.0))
    (1 to 7).foreach { _ =>
      clock.advance(10000)
      counted.sample()
    }
    assertEquals((counted.storedRate("t"), counted.gotRate("g", "t")), (0.0, 0.0))
    assertEquals(counted.namedCount, 0)
  }

  test("totals are kept as of the last two midnights, without the broker's own topics") {
    val clock = new ManualClock(startWall = 10 * dayMs + dayMs / 2)
    val counted = traffic(clock)
    def stored = (counted.stored.yesterdayMorning, counted.stored.todayMorning, counted.stored.now)
    counted.onStored("t", 5)
    counted.onStored("SCHEDULE_TOPIC_XXXX", 100)
    counted.sample()
    assertEquals(stored, (0L, 0L, 5L))
    clock.advance(dayMs / 2)
    counted.sample()
    counted.onStored("t", 2)
    assertEquals(stored, (0L, 5L, 7L))
    clock.setBack(dayMs)
    counted.sample()
    assertEquals(stored, (0L, 5L, 7L), "a clock that is set back begins no day")
    clock.setBack(-dayMs)
    clock.advance(dayMs)
    counted.sample()
    assertEquals(stored, (5L, 7L, 7L))
  }
}
