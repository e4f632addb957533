package rmqordered.net

import rmqordered.net.RequestMemory.Outcome
import rmqordered.util.ManualClock

class RequestMemorySuite extends munit.FunSuite {
  private val clock = new ManualClock()
  private val memory = new RequestMemory(4000000, clock)
  private var events = Vector.empty[String]

  private def claim(name: String): memory.Claim =
    new memory.Claim(() => events :+= s"granted $name", () => events :+= s"given up $name")

  override def beforeEach(context: BeforeEach): Unit = events = Vector.empty

  test("frames wait for room, first come first served, and small ones never") {
    val (first, second, third, fourth) = (claim("1"), claim("2"), claim("3"), claim("4"))
    assertEquals(first.begin(1500000), Outcome.Granted)
    assertEquals(second.begin(1500000), Outcome.Waits)
    assertEquals(third.begin(400000), Outcome.Waits)
    assertEquals(fourth.begin(RequestMemory.FreeBytes), Outcome.Granted)
    // Middling frames have a room of their own.
    assertEquals(fourth.begin(100000), Outcome.Granted)
    fourth.end()
    first.end()
    assertEquals(events, Vector("granted 2", "granted 3"))
    assertEquals(memory.totalBytes, 1900000L)
    Seq(second, third).foreach(_.end())
    assertEquals(memory.totalBytes, 0L)
  }

  test("unanswered requests leave no room for further frames, until they are answered") {
    memory.hold(3900000)
    val frame = claim("frame")
    assertEquals(frame.begin(200000), Outcome.Granted, "alone it may pass the limit")
    val other = claim("other")
    assertEquals(other.begin(200000), Outcome.Waits)
    memory.release(3900000)
    assertEquals(events, Vector("granted other"))
    Seq(frame, other).foreach(_.end())
  }

  test("who leaves while it waits is forgotten, and whoever was behind it moves up") {
    val (first, second, third) = (claim("1"), claim("2"), claim("3"))
    first.begin(1900000)
    second.begin(1900000)
    third.begin(50000 + 256 * 1024)
    second.end()
    first.end()
    assertEquals(events, Vector("granted 3"))
    third.end()
    assertEquals(memory.totalBytes, 0L)
  }

  test("the frame that takes longest is given up, if it is too long and somebody waits") {
    val (first, second, third) = (claim("1"), claim("2"), claim("3"))
    first.begin(900000)
    clock.advance(1000)
    second.begin(900000)
    clock.advance(60000)
    memory.giveUpSlow()
    assertEquals(events, Vector.empty[String], "nobody waits")
    third.begin(900000)
    memory.giveUpSlow()
    assertEquals(events, Vector("given up 1"))
    first.end()
    assertEquals(events, Vector("given up 1", "granted 3"))
    Seq(second, third).foreach(_.end())
  }

  test("a frame that goes on as it should is not given up, however many wait") {
    val (first, second) = (claim("1"), claim("2"))
    first.begin(1900000)
    second.begin(1900000)
    clock.advance(9999)
    memory.giveUpSlow()
    assertEquals(events, Vector.empty[String])
    Seq(first, second).foreach(_.end())
  }

  test("those who wait are limited too") {
    val first = claim("first")
    first.begin(1900000)
    val waiting = Vector.fill(300)(claim("next"))
    val outcomes = waiting.map(_.begin(1900000))
    assertEquals(outcomes.count(_ == Outcome.Waits), 256)
    assertEquals(outcomes.last, Outcome.Refused)
    (waiting :+ first).foreach(_.end())
    assertEquals(memory.totalBytes, 0L)
  }

  test("whoever paused goes on when there is room") {
    memory.hold(4000000)
    memory.whenRoom(() => events :+= "resumed")
    memory.release(500000)
    assertEquals(events, Vector.empty[String], "not for every bit of room")
    memory.release(3500000)
    assertEquals(events, Vector("resumed"))
    memory.whenRoom(() => events :+= "at once")
    assertEquals(events, Vector("resumed", "at once"))
  }
}
