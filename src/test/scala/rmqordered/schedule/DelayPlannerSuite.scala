package rmqordered.schedule

import scala.collection.immutable.VectorMap

import rmqordered.model.QueueKey
import rmqordered.util.ManualClock

class DelayPlannerSuite extends munit.FunSuite {
  private val clock = new ManualClock()
  private val target = QueueKey("t", 3)
  private val planner =
    new DelayPlanner(DelayLimits(Vector(1000L, 5000L), 10000L), clock, () => true)

  private def place(properties: (String, String)*): Either[String, Placement] =
    planner.place(target, VectorMap(properties: _*))

  test("a message without a wish stays where it is") {
    val plain = VectorMap("TAGS" -> "A")
    assertEquals(planner.place(target, plain), Right(Placement(target, plain)))
    assertEquals(place("DELAY" -> "0").map(_.queue), Right(target))
    assertEquals(place("DELAY" -> "-1").map(_.queue), Right(target))
  }

  test("a level decides the queue, the address goes into the properties") {
    assertEquals(
      place("DELAY" -> "2"),
      Right(
        Placement(
          QueueKey("SCHEDULE_TOPIC_XXXX", 1),
          VectorMap("DELAY" -> "2", "REAL_TOPIC" -> "t", "REAL_QID" -> "3")
        )
      )
    )
  }

  test("a level wins over a time, and a level too high is the highest") {
    val placed = place("DELAY" -> "7", "TIMER_DELAY_SEC" -> "5", "TIMER_DELIVER_MS" -> "1")
    assertEquals(
      placed.map(p => (p.queue, p.properties.keySet, p.properties("DELAY"))),
      Right((QueueKey("SCHEDULE_TOPIC_XXXX", 1), Set("DELAY", "REAL_TOPIC", "REAL_QID"), "2"))
    )
  }

  test("a time is kept to the millisecond; seconds count before milliseconds before a date") {
    val now = clock.wallMillis()
    def out(properties: (String, String)*) =
      place(properties: _*).map(p => (p.queue, p.properties.get("TIMER_OUT_MS")))
    val timer = QueueKey("rmq_sys_wheel_timer", 0)
    assertEquals(out("TIMER_DELIVER_MS" -> s"${now + 7}"), Right((timer, Some(s"${now + 7}"))))
    assertEquals(
      out("TIMER_DELIVER_MS" -> s"${now + 7}", "TIMER_DELAY_MS" -> "5", "TIMER_DELAY_SEC" -> "2"),
      Right((timer, Some(s"${now + 2000}")))
    )
    assertEquals(out("TIMER_DELIVER_MS" -> s"$now"), Right((target, None)))
  }

  test("a message that came through the timer once does not wait again") {
    val came = place("TIMER_DELAY_MS" -> "5", "TIMER_OUT_MS" -> "1")
    assertEquals(came.map(_.queue), Right(target))
  }

  test("what cannot be kept is refused with a sentence") {
    assert(place("TIMER_DELAY_MS" -> "10000").isRight)
    assertEquals(
      place("TIMER_DELAY_MS" -> "10001"),
      Left("the delay time should not be bigger than the max delay 10000ms")
    )
    assertEquals(place("DELAY" -> "x"), Left("the property DELAY is not a number: 'x'"))
    assertEquals(
      place("TIMER_DELAY_SEC" -> "9223372036854775807"),
      Left("the property TIMER_DELAY_SEC is not a time: '9223372036854775807'")
    )
    val full = new DelayPlanner(DelayLimits(Vector(1000L), 10000L), clock, () => false)
    assert(full.place(target, VectorMap("TIMER_DELAY_MS" -> "5")).isLeft)
    assert(full.place(target, VectorMap("DELAY" -> "1")).isRight)
  }
}
