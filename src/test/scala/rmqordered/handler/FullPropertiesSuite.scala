package rmqordered.handler

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{DecodedRecord, RemotingCommand, RequestCode, StoredRecord}
import rmqordered.schedule.Redelivery
import rmqordered.store.StoreFixture
import rmqordered.util.Eventually

/**
 * Messages that have as many properties as a record can hold, on every way on which the broker
 * stores a message again and would like to add some: none is lost, none comes again for ever, and
 * the log they are in can be read.
 */
class FullPropertiesSuite extends munit.FunSuite {
  private val later = (0 until 5).map(i => s"later $i")

  private def pull(client: TestClient, topic: String): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields(topic, 0, 0))
    client.receive()
  }

  private def padded(properties: String, bytes: Int): String =
    properties + "PAD\u0001" + "p" * bytes + "\u0002"

  /** Sends as many bytes of properties as the broker takes; it says how many are too many. */
  private def sendFull(client: TestClient, topic: String, properties: String): Unit = {
    val refused = client.send(topic, 0, "full", padded(properties, StoredRecord.MaxPropertiesBytes))
    val found = """(\d+) bytes of properties""".r.findFirstMatchIn(refused.remark.getOrElse(""))
    val bytes = found.getOrElse(fail(s"not refused: $refused")).group(1).toInt
    val room = 2 * StoredRecord.MaxPropertiesBytes - bytes
    assertEquals(client.send(topic, 0, "full", padded(properties, room)).code, 0)
    assertEquals(client.send(topic, 0, "over", padded(properties, room + 1)).code, 13)
  }

  /** Sends a record that fills its properties by itself: in a batch the broker adds nothing. */
  private def sendFullRecord(client: TestClient): DecodedRecord = {
    val properties = "PAD\u0001" + "p" * (StoredRecord.MaxPropertiesBytes - 4)
    val batch = java.nio.ByteBuffer.allocate(22 + 4 + properties.length)
    batch.putInt(batch.capacity()).putInt(0).putInt(0).putInt(0).putInt(4).put("full".getBytes)
    batch.putShort(properties.length.toShort).put(properties.getBytes)
    client.request(RequestCode.SendBatchMessage, sendFields("t", 0), batch.array())
    assertEquals(client.receive().code, 0)
    records(pull(client, "t")).head
  }

  /** A broker, and one that starts from the files that a kill of it leaves. */
  private def surviving(topic: String)(fill: (TestBroker, TestClient) => Unit): Seq[String] = {
    val folder = StoreFixture.temporaryFolder()
    val copy = StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    try {
      val client = first.connect()
      client.createTopic("t", 1)
      fill(first, client)
      later.foreach(body => assertEquals(client.send("u", 0, body).code, 0))
      Eventually.copyTree(folder, copy)
    } finally first.close()
    val second = new TestBroker(copy)
    try {
      assertEquals(bodies(pull(second.connect(), "u")), later)
      bodies(pull(second.connect(), topic))
    } finally second.close()
  }

  Seq("DELAY\u00011\u0002", "TIMER_DELAY_MS\u00011000\u0002").foreach { delay =>
    test(s"a delayed message comes once, and what is sent after it survives a kill, $delay".proves(
      "full-properties"
    )) {
      val came = surviving("t") { (broker, client) =>
        sendFull(client, "t", delay)
        broker.clock.advance(1000)
        Eventually { broker.tick(); bodies(pull(client, "t")).nonEmpty }
        broker.clock.advance(60000)
        (0 until 3).foreach(_ => broker.tick())
        val properties = Redelivery.propertiesOf(records(pull(client, "t")).head)
        assert(properties("PAD").length > 30000, s"${properties.keySet}")
      }
      assertEquals(came, Seq("full"))
    }
  }

  test("a message that is given back without room for a retry is a dead letter".proves(
    "full-properties"
  )) {
    val came = surviving("%DLQ%g") { (_, client) =>
      client.heartbeat("c1", "g", "t")
      client.receive()
      val record = sendFullRecord(client)
      val at = record.position.commitLogOffset.toString
      val fields = Seq("offset" -> at, "group" -> "g", "delayLevel" -> "0")
      assertEquals(client.call(RequestCode.ConsumerSendMsgBack, fields: _*).code, 0)
    }
    assertEquals(came, Seq("full"))
  }

  test("a message that was popped in vain without room for its handle is a dead letter".proves(
    "full-properties"
  )) {
    val came = surviving("%DLQ%g") { (broker, client) =>
      sendFullRecord(client)
      val popper = new Popper(client, "t")
      assertEquals(popper.pop().map(_.body), Vector("full"))
      broker.clock.advance(60000L)
      Eventually { broker.tick(); bodies(pull(client, "%DLQ%g")).nonEmpty }
      (0 until 3).foreach { _ =>
        broker.clock.advance(7200000L)
        broker.tick()
      }
      assertEquals(popper.pop(), Vector.empty)
    }
    assertEquals(came, Seq("full"))
  }

  test("a message from a retry topic without room for its handle goes out as it is".proves(
    "full-properties"
  )) {
    surviving("t") { (_, client) =>
      client.createTopic("%RETRY%g_t", 1)
      sendFull(client, "%RETRY%g_t", "")
      val popped = new Popper(client, "t").ask()
      assertEquals(records(popped).map(_.envelope.topic), Seq("%RETRY%g_t"))
    }
  }

  test(
    "what an orderly group gives up is a dead letter, also without the broker's properties".proves(
      "full-properties"
    )
  ) {
    val came = surviving("%DLQ%g") { (_, client) =>
      client.heartbeat("c1", "g", "t")
      client.receive()
      client.lock("c1", "g", "t", 0)
      val own = padded("", StoredRecord.MaxPropertiesBytes - 5)
      assertEquals(client.send("%RETRY%g", 0, "full", own).code, 0)
    }
    assertEquals(came, Seq("full"))
  }
}
