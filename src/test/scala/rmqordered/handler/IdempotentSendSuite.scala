package rmqordered.handler

import java.nio.ByteBuffer
import java.nio.file.Files

import scala.util.Random

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RecordContent, RemotingCommand, RequestCode, ResponseCode, Slice}
import rmqordered.store.StoreFixture

/** Stamped sends over the wire, and a model of clients that repeat themselves. */
class IdempotentSendSuite extends BrokerSuite {
  import IdempotentSendSuite._

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    client
  }

  private def stream(client: TestClient, sink: String = "s") =
    client.call(
      RequestCode.GetSendStream,
      "topic" -> "t",
      "queueId" -> "0",
      "sink" -> sink,
      "partition" -> "0"
    )

  private def last(answer: RemotingCommand) =
    Seq("lastBatch", "lastSequence", "lastDigest", "lastOffset").map(answer.ext(_).getOrElse("-"))

  broker.test("a repeated send is a success that adds nothing".proves("stamped-send-repeated")) {
    b =>
      val client = ready(b)
      val first = send(client, 1, 0 to 2)
      assertEquals(
        (first.code, first.ext("duplicate"), first.ext("queueOffset")),
        (0, Some("false"), Some("0"))
      )
      val again = send(client, 1, 0 to 2)
      assertEquals(
        (again.code, again.ext("duplicate"), again.ext("landed")),
        (0, Some("true"), Some("3"))
      )
      assertEquals(last(again), Seq("1", "2", digest(1, 2), "2"))
      Seq("msgId", "queueId", "queueOffset").foreach(f => assertEquals(again.ext(f), first.ext(f)))
      assertEquals(stored(client), Seq("1/0", "1/1", "1/2"))
  }

  broker.test("what landed is cut off and the rest appended".proves("stamped-send-repeated")) { b =>
    val client = ready(b)
    send(client, 1, 0 to 2)
    client.send("t", 0, "somebody else's")
    val answer = send(client, 1, 1 to 4)
    assertEquals(
      (answer.code, answer.ext("duplicate"), answer.ext("landed")),
      (0, Some("partial"), Some("2"))
    )
    assertEquals(answer.ext("queueOffset"), Some("-1"))
    assertEquals(
      answer.ext("msgId").map(_.split(",", -1).toSeq.map(_.isEmpty)),
      Some(Seq(true, true, false, false))
    )
    assertEquals(last(answer), Seq("1", "4", digest(1, 4), "5"))
    assertEquals(stored(client), Seq("1/0", "1/1", "1/2", "1/3", "1/4"))
  }

  broker.test("single messages and batches are parts of one stream") { b =>
    val client = ready(b)
    (0 to 1).foreach { i =>
      val answer = client.send("t", 0, s"1/$i", property(1, i))
      assertEquals((answer.code, answer.ext("lastSequence")), (0, Some(s"$i")))
    }
    assertEquals(send(client, 1, 0 to 3).ext("duplicate"), Some("partial"))
    assertEquals(client.send("t", 0, "1/3", property(1, 3)).ext("duplicate"), Some("true"))
    assertEquals(stored(client), Seq("1/0", "1/1", "1/2", "1/3"))
  }

  broker.test(
    "each refusal has its code, its sentence and what landed last".proves("stamped-send-repeated")
  ) { b =>
    val client = ready(b)
    val unknown = send(client, 1, 3 to 3)
    assertEquals(
      (unknown.code, last(unknown)),
      (ResponseCode.StreamUnknown, Seq("-", "-", "-", "-"))
    )
    send(client, 2, 0 to 1)
    val landed = Seq("2", "1", digest(2, 1), "1")
    val gap = send(client, 2, 3 to 3)
    assertEquals(
      (gap.code, gap.remark, last(gap)),
      (ResponseCode.SequenceGap, Some("Sequence 2 is expected, found 3."), landed)
    )
    val stale = send(client, 1, 0 to 1)
    assertEquals((stale.code, last(stale)), (ResponseCode.StaleBatch, landed))
    val diverged = client.send("t", 0, "x", "RMQO_STAMP\u0001s/2/0/1/00000000000000aa\u0002")
    assertEquals((diverged.code, last(diverged)), (ResponseCode.ReplayDiverged, landed))
    assert(
      diverged.remark.exists(r => r.contains("00000000000000aa") && r.contains(digest(2, 1))),
      s"${diverged.remark}"
    )
    assertEquals(stored(client), Seq("2/0", "2/1"))
  }

  broker.test(
    "a shorter replay with other rows is not taken for what landed".proves("stamped-send-repeated")
  ) { b =>
    val client = ready(b)
    send(client, 2, 0 to 9)
    assertEquals(send(client, 2, 0 to 3).ext("duplicate"), Some("true"))
    val other = client.send("t", 0, "x", "RMQO_STAMP\u0001s/2/0/4/00000000000000aa\u0002")
    assertEquals(
      (other.code, last(other)),
      (ResponseCode.ReplayDiverged, Seq("2", "4", digest(2, 4), "4"))
    )
    assertEquals(stored(client).length, 10)
  }

  broker.test("stamps that do not make one piece of a stream are illegal") { b =>
    val client = ready(b)
    def refused(answer: RemotingCommand): Unit =
      assertEquals(answer.code, ResponseCode.MessageIllegal, answer.remark)
    refused(client.send("t", 0, "x", "RMQO_STAMP\u0001nonsense\u0002"))
    refused(client.send("t", -1, "x", property(1, 0)))
    refused(sendBatch(client, record("a", property(1, 0)) ++ record("b", "")))
    refused(sendBatch(client, record("a", property(1, 0)) ++ record("b", property(1, 2))))
    client.request(
      RequestCode.SendBatchMessage,
      sendFields("t", 0, property(1, 0)),
      record("a", "")
    )
    refused(client.receive())
    assertEquals(stored(client), Nil)
  }

  test("a stamped message that would wait elsewhere first is illegal") {
    val fields = SendRequest("t", "", 0, 0, 0, 0L, 0, "", 0, None, isBrief = false)
    val content = new RecordContent(0, Slice("x".getBytes), Slice(property(1, 0).getBytes))
    assertEquals(Stamps.of(fields, "t", Vector(content)).map(_.sink), Some("s"))
    val refusal = intercept[Refusal](Stamps.of(fields, "SCHEDULE_TOPIC_XXXX", Vector(content)))
    assertEquals(refusal.code, ResponseCode.MessageIllegal)
  }

  broker.test("a stamped message with a delay is refused and leaves nothing behind") { b =>
    val client = ready(b)
    val refused = client.send("t", 0, "later", property(1, 0) + "DELAY\u00011\u0002")
    assertEquals(refused.code, ResponseCode.MessageIllegal)
    assertEquals(stream(client).code, ResponseCode.QueryNotFound)
    assertEquals(send(client, 1, 0 to 0).ext("duplicate"), Some("false"))
  }

  broker.test("a consumer may give a stamped message back") { b =>
    val client = ready(b)
    assertEquals(client.send("%RETRY%g", 0, "again", property(7, 5)).code, 0)
  }

  broker.test("a stream can be asked for") { b =>
    val client = ready(b)
    assertEquals(stream(client).code, ResponseCode.QueryNotFound)
    send(client, 1, 0 to 2)
    assertEquals((stream(client).code, last(stream(client))), (0, Seq("1", "2", digest(1, 2), "2")))
    assertEquals(stream(client, "other").code, ResponseCode.QueryNotFound)
    assertEquals(stream(client, "../x").code, ResponseCode.InvalidParameter)
  }

  broker.test("a deleted topic's streams are gone") { b =>
    val client = ready(b)
    send(client, 1, 0 to 2)
    client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
    client.createTopic("t", 2)
    assertEquals(stream(client).code, ResponseCode.QueryNotFound)
    assertEquals(send(client, 1, 0 to 0).ext("duplicate"), Some("false"))
  }

  test("a topic deleted and made again stays new after a restart") {
    val folder = StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val client = ready(first)
    send(client, 1, 0 to 2)
    client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
    client.createTopic("t", 2)
    first.close()
    val second = new TestBroker(folder)
    assertEquals(stream(second.connect()).code, ResponseCode.QueryNotFound)
    second.close()
  }

  test(
    "the memory survives a stop, a crash without a snapshot, and a log shorter than the snapshot"
  ) {
    val folder = StoreFixture.temporaryFolder()
    val snapshot = folder.resolve("config").resolve("sendStreams.bin")
    def restarted[T](body: TestClient => T): T = {
      val broker = new TestBroker(folder)
      try body(broker.connect())
      finally broker.close()
    }
    restarted { client =>
      client.createTopic("t", 2)
      send(client, 1, 0 to 2)
    }
    restarted(client => assertEquals(send(client, 1, 0 to 3).ext("duplicate"), Some("partial")))
    Files.delete(snapshot)
    restarted(client => assertEquals(last(stream(client)), Seq("1", "3", digest(1, 3), "3")))
    // A snapshot that speaks of records the log does not have.
    val shorter = Seq("commitlog/" + "0" * 20, "config/checkpoint.json").map { name =>
      folder.resolve(name) -> Files.readAllBytes(folder.resolve(name))
    }
    restarted(client => send(client, 1, 4 to 4))
    shorter.foreach { case (file, bytes) => Files.write(file, bytes) }
    restarted { client =>
      assertEquals(last(stream(client)), Seq("1", "3", digest(1, 3), "3"))
      assertEquals(send(client, 1, 4 to 4).ext("duplicate"), Some("false"))
    }
  }

  test("of two connections that send the same at once, one lands") {
    val broker = new TestBroker()
    val client = ready(broker)
    val threads = (1 to 2).map { _ =>
      val mine = broker.connect()
      new Thread(() => (0 until 200).foreach(i => assertEquals(send(mine, 1, 0 to i).code, 0)))
    }
    threads.foreach(_.start())
    threads.foreach(_.join())
    assertEquals(stored(client), (0 until 200).map(i => s"1/$i"))
    broker.close()
  }

  test(
    "with retries, restarts and racing connections no stream has a gap, a repeat or a new order"
  ) {
    Seq(1L, 2L, 3L, 4L).foreach(seed => new IdempotenceModel(seed).run(steps = 400))
  }
}

object IdempotentSendSuite {

  def digest(batch: Long, sequence: Long): String = f"${batch * 1000003 + sequence}%016x"

  def property(batch: Long, sequence: Long, sink: String = "s"): String =
    sender(sink) + s"RMQO_STAMP\u0001$sink/$batch/0/$sequence/${digest(batch, sequence)}\u0002"

  /** Tells the messages of a sink apart in a queue, whether they carry stamps or not. */
  private def sender(sink: String): String = s"sender\u0001$sink\u0002"

  def record(body: String, properties: String): Array[Byte] = {
    val size = 22 + body.length + properties.length
    val out = ByteBuffer.allocate(size)
    out.putInt(size).putInt(0).putInt(0).putInt(0).putInt(body.length).put(body.getBytes)
    out.putShort(properties.length.toShort).put(properties.getBytes).array()
  }

  def sendBatch(client: TestClient, batch: Array[Byte], queueId: Int = 0): RemotingCommand = {
    client.request(RequestCode.SendBatchMessage, sendFields("t", queueId), batch)
    client.receive()
  }

  def send(
      client: TestClient,
      batch: Long,
      sequences: Range,
      sink: String = "s",
      queueId: Int = 0
  ): RemotingCommand =
    sendBatch(
      client,
      sequences.flatMap(i => record(s"$batch/$i", property(batch, i.toLong, sink))).toArray,
      queueId
    )

  /** The same as `send`, with one stamp for all messages. */
  def sendOnce(
      client: TestClient,
      batch: Long,
      sequences: Range,
      sink: String = "s",
      queueId: Int = 0
  ): RemotingCommand = {
    val records = sequences.flatMap(i => record(s"$batch/$i", sender(sink)))
    val stamp = s"$sink/$batch/0/${sequences.head}"
    sendStamped(client, stamp, records.toArray, digests(batch, sequences), queueId)
  }

  def digests(batch: Long, sequences: Range): Array[Long] =
    sequences.map(i => java.lang.Long.parseUnsignedLong(digest(batch, i.toLong), 16)).toArray

  /** A batch with a stamp in its header; digests are believed to be as many as there are. */
  def sendStamped(
      client: TestClient,
      stamp: String,
      records: Array[Byte],
      digests: Array[Long],
      queueId: Int = 0
  ): RemotingCommand = {
    val body = ByteBuffer.allocate(records.length + 8 * digests.length).put(records)
    digests.foreach(body.putLong)
    val fields =
      sendFields("t", queueId) ++ Map("stamp" -> stamp, "digests" -> s"${digests.length}")
    client.request(RequestCode.SendBatchMessage, fields, body.array())
    client.receive()
  }

  /** The messages of a sink in a queue. */
  def stored(client: TestClient, sink: String = "s", queueId: Int = 0): Seq[String] = {
    val fields = pullFields("t", queueId, 0, "maxMsgNums" -> "60000", "maxMsgBytes" -> "4000000")
    client.request(RequestCode.PullMessage, fields)
    records(client.receive())
      .filter(r => new String(r.content.properties.toArray).contains(sender(sink)))
      .map(r => new String(r.content.body.toArray))
  }
}

/**
 * Two sinks, each with a writer that forgets answers, sends again from anywhere in the batch, on
 * either of two connections, at the same time on both, or starts batches anew; and a broker that
 * restarts. Each request has one stamp or one per message. What lands is checked against what a
 * writer without faults would have sent.
 */
final class IdempotenceModel(seed: Long) extends munit.Assertions {
  import IdempotentSendSuite.stored

  private val random = new Random(seed)
  private val folder = StoreFixture.temporaryFolder()
  private var broker = new TestBroker(folder)
  private var clients = connect()
  clients.head.createTopic("t", 2)

  private final class Writer(val sink: String, val queueId: Int) {
    var batch = 0L
    var sent = 0
    var finished: Vector[String] = Vector.empty

    def expected: Vector[String] = finished ++ (0 until sent).map(i => s"$batch/$i")
  }
  private val writers = Vector(new Writer("a", 0), new Writer("b", 0), new Writer("a", 1))

  private def send(client: TestClient, batch: Long, sequences: Range, sink: String, queueId: Int) =
    if (random.synchronized(random.nextBoolean()))
      IdempotentSendSuite.sendOnce(client, batch, sequences, sink, queueId)
    else IdempotentSendSuite.send(client, batch, sequences, sink, queueId)

  private def connect(): Vector[TestClient] = Vector(broker.connect(), broker.connect())

  def run(steps: Int): Unit = {
    (0 until steps).foreach { _ =>
      val writer = writers(random.nextInt(writers.length))
      random.nextInt(20) match {
        case 0 => restart()
        case 1 if writer.sent > 0 => nextBatch(writer)
        case 2 | 3 => race(writer)
        case 4 => wrong(writer)
        case _ => advance(writer, clients(random.nextInt(2)))
      }
    }
    writers.foreach { writer =>
      assertEquals(
        stored(clients.head, writer.sink, writer.queueId),
        writer.expected,
        s"seed $seed"
      )
    }
    broker.close()
  }

  private def restart(): Unit = {
    broker.close()
    if (random.nextBoolean())
      Files.deleteIfExists(folder.resolve("config").resolve("sendStreams.bin"))
    broker = new TestBroker(folder)
    clients = connect()
  }

  private def nextBatch(writer: Writer): Unit = {
    writer.finished = writer.expected
    writer.batch += 1 + random.nextInt(3)
    writer.sent = 0
  }

  /** Some that landed, perhaps, and some that did not, perhaps. */
  private def piece(writer: Writer): Range = {
    val from = if (random.nextBoolean()) writer.sent else random.nextInt(writer.sent + 1)
    from to from + random.nextInt(6)
  }

  private def advance(writer: Writer, client: TestClient): Unit = {
    val range = piece(writer)
    val answer = send(client, writer.batch, range, writer.sink, writer.queueId)
    assertEquals(answer.code, 0, s"seed $seed: ${answer.remark}")
    writer.sent = Math.max(writer.sent, range.last + 1)
    assertEquals(answer.ext("lastSequence"), Some(s"${writer.sent - 1}"), s"seed $seed")
  }

  private def race(writer: Writer): Unit = {
    val range = piece(writer)
    val threads = clients.map { client =>
      new Thread(() => { val _ = send(client, writer.batch, range, writer.sink, writer.queueId) })
    }
    threads.foreach(_.start())
    threads.foreach(_.join())
    writer.sent = Math.max(writer.sent, range.last + 1)
  }

  private def wrong(writer: Writer): Unit = {
    val gap = send(
      clients.head,
      writer.batch,
      writer.sent + 1 to writer.sent + 2,
      writer.sink,
      writer.queueId
    )
    assert(
      Set(ResponseCode.SequenceGap, ResponseCode.StreamUnknown).contains(gap.code),
      s"seed $seed: $gap"
    )
    if (writer.batch > 0 && writer.sent > 0) {
      val stale = send(clients.head, writer.batch - 1, 0 to 3, writer.sink, writer.queueId)
      assertEquals(stale.code, ResponseCode.StaleBatch, s"seed $seed")
    }
  }
}
