package rmqordered.util

class ClockSuite extends munit.FunSuite {

  test("the system clock's monotonic time does not go back") {
    val times = Seq.fill(1000)(SystemClock.monotonicMillis())
    assertEquals(times, times.sorted)
  }

  test("a manual clock moves both its times together") {
    val clock = new ManualClock(startWall = 1000L)
    clock.advance(5L)
    assertEquals((clock.wallMillis(), clock.monotonicMillis()), (1005L, 5L))
  }
}
