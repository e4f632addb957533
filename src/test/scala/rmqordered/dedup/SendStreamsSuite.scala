package rmqordered.dedup

import rmqordered.Proves._
import rmqordered.dedup.StampVerdict._
import rmqordered.model.QueueKey
import rmqordered.protocol.{DecodedRecord, RecordPosition}
import rmqordered.store.StoreFixture
import rmqordered.util.MemoryFile

class SendStreamsSuite extends munit.FunSuite {
  private val queue = QueueKey("orders", 0)
  private val key = StreamKey(queue, "s", 0L)

  /** Sequences `from` to `to` of a batch; a message's digest is 100 plus its sequence. */
  private def request(batch: Long, from: Long, to: Long, shift: Long = 100): StampedRequest =
    StampedRequest("s", 0L, batch, from, (from to to).map(_ + shift).toVector)

  /** A stream whose batch 5 landed up to sequence 9, at offsets 20 to 29. */
  private def filled(file: MemoryFile = new MemoryFile(), capacity: Int = 10): SendStreams = {
    val streams = new SendStreams(file, capacity)
    streams.landed(queue, request(5, 0, 9), 0, 20L, (0 until 10).map(_ * 100L).toArray)
    streams
  }

  /** What `filled` has put into the queue. */
  private def stored(queueOffset: Long): Option[SendStamp] =
    Option.when(queueOffset >= 20 && queueOffset < 30) {
      SendStamp("s", 5L, 0L, queueOffset - 20, queueOffset + 80)
    }

  private def record(
      stamp: SendStamp,
      queueOffset: Long,
      commitLogOffset: Long,
      topic: String = "orders",
      count: Option[Int] = None
  ) = {
    val text = stamp.text + count.fold("")(n => s"/$n")
    val properties = s"KEYS\u0001k\u0002${SendStamp.PropertyName}\u0001$text\u0002"
    val content = new rmqordered.protocol.RecordContent(
      0,
      rmqordered.protocol.Slice("x".getBytes),
      rmqordered.protocol.Slice(properties.getBytes)
    )
    val position = RecordPosition(queueOffset, commitLogOffset, 1L)
    DecodedRecord(100, StoreFixture.envelope(topic, 0), content, position)
  }

  test("every rule, as a table") {
    val streams = filled()
    val last = streams.last(key).get
    val table = Seq(
      "the next sequence is appended" -> request(5, 10, 12) -> Append(0),
      "a repeat of the last request adds nothing" -> request(5, 7, 9) -> Duplicate(last),
      "a repeat of an earlier request adds nothing" -> request(5, 0, 3) -> Duplicate(last),
      "what landed is cut off" -> request(5, 8, 11) -> Append(2),
      "a repeat from the beginning goes on where it ended" -> request(5, 0, 10) -> Append(10),
      "a gap is refused" -> request(5, 11, 11) -> SequenceGap(10, 11, last),
      "another digest at the last landed sequence is refused" ->
        request(5, 9, 9, shift = 200) -> ReplayDiverged(209, last),
      "also when more follows" -> request(5, 8, 12, shift = 200) -> ReplayDiverged(209, last),
      "another digest before the last one is refused where it can be looked up" ->
        request(5, 3, 4, shift = 200) ->
        ReplayDiverged(204, last.copy(sequence = 4, digest = 104, queueOffset = 24)),
      "a later batch begins at 0" -> request(6, 0, 1) -> Append(0),
      "batches may be left out" -> request(60, 0, 1) -> Append(0),
      "a later batch that does not begin at 0 is refused" -> request(6, 10, 11) -> SequenceGap(
        0,
        10,
        last
      ),
      "an earlier batch is refused" -> request(4, 0, 1) -> StaleBatch(4, last),
      "even where it would go on" -> request(4, 10, 11) -> StaleBatch(4, last)
    )
    table.foreach { case ((rule, asked), verdict) =>
      assertEquals(streams.judge(queue, asked)(stored), verdict, rule)
    }
    assertEquals(streams.last(key), Some(last))
  }

  test("a digest is not judged where nobody knows what landed, or something else is there") {
    val streams = filled()
    val last = streams.last(key).get
    val asked = request(5, 3, 4, shift = 200)
    assertEquals(streams.judge(queue, asked)(_ => None), Duplicate(last))
    val another = stored(24L).map(_.copy(batch = 4L))
    assertEquals(streams.judge(queue, asked)(_ => another), Duplicate(last))
    streams.landed(queue, request(5, 10, 11), 0, 50L, Array(5000L, 5100L))
    // Something came between: offsets below are not known any more.
    assertEquals(streams.judge(queue, asked)(stored), Duplicate(streams.last(key).get))
  }

  test("streams differ by queue, sink and partition, and an unknown one begins at 0") {
    val streams = filled()
    val others = Seq(
      (QueueKey("orders", 1), request(5, 0, 0)),
      (QueueKey("other", 0), request(5, 0, 0)),
      (queue, request(5, 0, 0).copy(sink = "t")),
      (queue, request(5, 0, 0).copy(partition = 1L))
    )
    others.foreach { case (other, asked) =>
      assertEquals(streams.judge(other, asked)(stored), Append(0))
      assertEquals(streams.judge(other, asked.copy(firstSequence = 3L))(stored), StreamUnknown(3))
    }
  }

  test("beyond the capacity new streams are refused and known ones go on") {
    val streams = filled(capacity = 1)
    assertEquals(streams.judge(QueueKey("orders", 1), request(5, 0, 0))(stored), TooManyStreams(1))
    assertEquals(streams.judge(queue, request(5, 10, 10))(stored), Append(0))
  }

  test("offsets are known as far back as they rise with the sequences") {
    val streams = filled()
    val last = streams.landed(queue, request(5, 8, 11), 2, 35L, Array(2000L, 2100L))
    assertEquals((last.sequence, last.queueOffset, last.commitLogOffset), (11L, 36L, 2100L))
    assertEquals(Seq(9L, 10L, 11L, 12L).map(last.offsetOf), Seq(None, Some(35L), Some(36L), None))
    val next = streams.landed(queue, request(5, 12, 12), 0, 37L, Array(2200L))
    assertEquals(next.offsetOf(10L), Some(35L))
  }

  test("recovery by observation ends where the appends ended") {
    val live = filled()
    val recovered = new SendStreams(new MemoryFile(), 10)
    (0 until 10).foreach { i =>
      recovered.observe(record(SendStamp("s", 5L, 0L, i.toLong, 100L + i), 20L + i, i * 100L))
    }
    assertEquals(recovered.last(key), live.last(key))
  }

  test("recovery from the last record of each append ends where the appends ended") {
    val live = filled()
    val requests =
      Seq(request(5, 10, 10) -> 30L, request(5, 11, 13) -> 31L, request(5, 14, 15) -> 40L)
    val recovered = new SendStreams(new MemoryFile(), 10)
    recovered.observe(record(SendStamp("s", 5L, 0L, 9L, 109L), 29L, 900L, count = Some(10)))
    requests.foreach { case (landed, first) =>
      val places = landed.digests.indices.map(i => 100 * (first + i)).toArray
      live.landed(queue, landed, 0, first, places)
      val last = SendStamp("s", 5L, 0L, landed.lastSequence, landed.digests.last)
      val count = landed.digests.length
      recovered.observe(record(last, first + count - 1, places.last, count = Some(count)))
      assertEquals(recovered.last(key), live.last(key), s"$landed")
    }
    assertEquals(live.last(key).map(_.runStart), Some(14L), "something else came between")
  }

  test("copies of a message in retry, dead letter and system topics count for nothing") {
    val streams = new SendStreams(new MemoryFile(), 10)
    Seq("%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX").foreach { topic =>
      streams.observe(record(SendStamp("s", 5L, 0L, 0L, 1L), 0L, 0L, topic))
    }
    assertEquals(streams.size, 0)
  }

  test(
    "a snapshot and the records after it are as good as all records".proves("stamped-send-repeated")
  ) {
    val file = new MemoryFile()
    val live = filled(file)
    live.save(live.freeze(1000L))
    live.landed(queue, request(5, 10, 10), 0, 30L, Array(1000L))
    val recovered = new SendStreams(file, 10)
    assertEquals(recovered.validTo, 1000L)
    recovered.observe(record(SendStamp("s", 5L, 0L, 3L, 103L), 23L, 300L))
    recovered.observe(record(SendStamp("s", 5L, 0L, 10L, 110L), 30L, 1000L))
    assertEquals(recovered.last(key), live.last(key))
    recovered.reset()
    assertEquals((recovered.validTo, recovered.size), (0L, 0))
    assertEquals(new SendStreams(file, 10).validTo, 0L, "a log that grows again must not meet it")
  }

  test("a snapshot that cannot be written leaves the old one, and the broker goes on") {
    val file = new MemoryFile()
    val live = filled(file)
    live.save(live.freeze(1000L))
    file.isBroken = true
    live.save(live.freeze(2000L))
    assertEquals(new SendStreams(file, 10).validTo, 1000L)
  }

  test("without a snapshot, or with a bad one, every record must be shown") {
    assertEquals(new SendStreams(new MemoryFile(), 10).validTo, 0L)
    val bytes = StreamSnapshot.encode(filled().freeze(1000L)())
    bytes.indices.foreach { i =>
      val damaged = bytes.clone()
      damaged(i) = (damaged(i) ^ 1).toByte
      assert(StreamSnapshot.decode(damaged).isLeft, s"byte $i")
      assert(StreamSnapshot.decode(bytes.take(i)).isLeft, s"cut at $i")
    }
    val file = new MemoryFile()
    file.replace(bytes.dropRight(1))
    val streams = new SendStreams(file, 10)
    assertEquals((streams.validTo, streams.size), (0L, 0))
  }

  test("a stream is forgotten with its last message, not before") {
    val streams = filled()
    streams.retain((_, commitLogOffset) => commitLogOffset >= 900L)
    assertEquals(streams.size, 1)
    streams.retain((topic, commitLogOffset) => topic != "orders" || commitLogOffset >= 901L)
    assertEquals(streams.size, 0)
    val again = filled()
    again.forget("other")
    assertEquals(again.size, 1)
    again.forget("orders")
    assertEquals(again.size, 0)
  }
}
