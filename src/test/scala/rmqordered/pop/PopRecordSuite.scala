package rmqordered.pop

import rmqordered.model.QueueKey
import rmqordered.offset.OffsetKey

class PopRecordSuite extends munit.FunSuite {
  private val key = OffsetKey("g", QueueKey("orders", 3))
  private val id = CheckPointId(7L, 1000L)
  private val point = CheckPoint(id, 60000L, Vector(7L, 9L), 1L, isChosen = true)
  private val batch = OrderBatch(
    1000L,
    500L,
    Vector(3L, 4L),
    2L,
    Map(3L -> 5000L),
    Map(4L -> 2),
    Set(9L),
    Some("attempt")
  )

  test("every record survives being written and read") {
    Seq(
      PopRecord.Popped(key, point, 10L),
      PopRecord.Settled(key, id, 3L),
      PopRecord.Changed(key, id, 1L, point),
      PopRecord.Moved(key, 5L),
      PopRecord.Ordered(key, 3L, Some(batch)),
      PopRecord.Ordered(key, 3L, None),
      PopRecord.Forgotten(key)
    ).foreach(record => assertEquals(PopRecord.decode(PopRecord.encode(record)), Right(record)))
  }

  test("a record cut short anywhere is refused, not misread") {
    val bytes = PopRecord.encode(PopRecord.Ordered(key, 3L, Some(batch)))
    bytes.indices.foreach(end => assert(PopRecord.decode(bytes.take(end)).isLeft, s"cut at $end"))
  }

  test("records applied again with all that follow change nothing") {
    val records = Seq(
      PopRecord.Popped(key, point.copy(settled = 0L), 10L),
      PopRecord.Settled(key, id, 1L),
      PopRecord.Changed(key, id, 2L, CheckPoint(CheckPointId(9L, 2000L), 1L, Vector(9L))),
      PopRecord.Ordered(key, 10L, Some(batch))
    )
    val once = records.foldLeft(QueueState(key))(_.applied(_))
    records.indices.foreach { from =>
      assertEquals(records.drop(from).foldLeft(once)(_.applied(_)), once)
    }
    assertEquals(once.records.foldLeft(QueueState(key))(_.applied(_)), once)
  }

  test("a time that clients chose too far away does not come out in the past") {
    assertEquals(CheckPoint(id, Long.MaxValue, Vector(7L)).visibleAt, Long.MaxValue)
  }
}
