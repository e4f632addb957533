package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode, StoredRecord}
import rmqordered.store.AppendSeal

class QueryHandlerSuite extends BrokerSuite {
  private val uniqueKey = "7F0000010000000000000000000000AA"

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    client
  }

  private def view(client: TestClient, offset: Long): RemotingCommand =
    client.call(RequestCode.ViewMessageById, "offset" -> offset.toString, "topic" -> "t")

  private def query(client: TestClient, key: String, extra: (String, String)*): RemotingCommand = {
    val fields = Map(
      "topic" -> "t",
      "key" -> key,
      "maxNum" -> "32",
      "beginTimestamp" -> "0",
      "endTimestamp" -> Long.MaxValue.toString
    ) ++ extra
    client.call(RequestCode.QueryMessage, fields.toSeq: _*)
  }

  /** The commit log offset in the id that the answer to a send carries. */
  private def offsetOf(sent: RemotingCommand): Long =
    java.lang.Long.parseUnsignedLong(sent.ext("msgId").get.takeRight(16), 16)

  broker.test("the id in a send's answer finds exactly that message") { b =>
    val client = ready(b)
    val sent = (0 until 5).map(i => client.send("t", i % 2, s"m$i"))
    sent.zipWithIndex.foreach { case (answer, i) =>
      assertEquals(bodies(view(client, offsetOf(answer))), Seq(s"m$i"))
    }
  }

  broker.test("an offset where no message starts finds nothing, whatever is there") { b =>
    val client = ready(b)
    val first = offsetOf(client.send("t", 0, "m0"))
    val second = offsetOf(client.send("t", 0, "m1"))
    val lies =
      (first + 1 until second) ++ Seq(-1L, Long.MinValue, Long.MaxValue, second + 100000, 1L << 40)
    lies.foreach { offset =>
      val answer = view(client, offset)
      assertEquals(
        (answer.code, answer.body.length),
        (ResponseCode.SystemError, 0),
        s"offset $offset"
      )
    }
    assertEquals(view(client, second).code, 0)
  }

  broker.test("a record forged inside a body is not a message, even at the place it claims") { b =>
    val client = ready(b)
    val at = offsetOf(client.send("t", 0, "m0"))
    val stored = view(client, at).body.toArray
    // The next record starts behind this one and its seal; its body starts a fixed way further.
    val next = at + stored.length + AppendSeal.Bytes
    val bodyAt = next + StoredRecord.BornHostAt + 8 + 8 + 8 + 4 + 8 + 4
    java.nio.ByteBuffer.wrap(stored).putLong(StoredRecord.CommitLogOffsetAt, bodyAt)
    client.request(RequestCode.SendMessageV2, sendFields("t", 0), stored)
    assertEquals(offsetOf(client.receive()), next)
    val inside = bodies(view(client, next))
    assertEquals(inside.length, 1)
    assertEquals(view(client, bodyAt).code, ResponseCode.SystemError)
  }

  broker.test("messages are found by each of their keys, newest first, in their topic only") { b =>
    val client = ready(b)
    client.createTopic("u", 1)
    client.send("t", 0, "one", "KEYS\u0001order-1 customer-7\u0002")
    client.send("t", 1, "two", "KEYS\u0001customer-7\u0002")
    client.send("u", 0, "elsewhere", "KEYS\u0001customer-7\u0002")
    assertEquals(bodies(query(client, "customer-7")), Seq("two", "one"))
    assertEquals(bodies(query(client, "order-1")), Seq("one"))
    assertEquals(bodies(query(client, "customer-7", "maxNum" -> "1")), Seq("two"))
    assertEquals(
      query(client, "order-1").ext("indexLastUpdatePhyoffset").map(_.toLong > 0),
      Some(true)
    )
    val none = query(client, "order")
    assertEquals(none.code, ResponseCode.QueryNotFound)
  }

  broker.test("the unique key is asked for by its own flag") { b =>
    val client = ready(b)
    client.send("t", 0, "one", s"UNIQ_KEY\u0001$uniqueKey\u0002KEYS\u0001k\u0002")
    client.send("t", 0, "two", s"KEYS\u0001$uniqueKey\u0002")
    assertEquals(bodies(query(client, uniqueKey, "_UNIQUE_KEY_QUERY" -> "true")), Seq("one"))
    assertEquals(bodies(query(client, uniqueKey, "_UNIQUE_KEY_QUERY" -> "false")), Seq("two"))
  }

  broker.test("a time range bounds the answer") { b =>
    val client = ready(b)
    val start = b.clock.wallMillis()
    (0 until 3).foreach { i =>
      client.send("t", 0, s"m$i", "KEYS\u0001k\u0002")
      b.clock.advance(10)
    }
    val range =
      Seq("beginTimestamp" -> (start + 5).toString, "endTimestamp" -> (start + 15).toString)
    assertEquals(bodies(query(client, "k", range: _*)), Seq("m1"))
  }

  broker.test("messages of a deleted topic are not found") { b =>
    val client = ready(b)
    val at = offsetOf(client.send("t", 0, "gone", "KEYS\u0001k\u0002"))
    client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
    client.createTopic("t", 2)
    client.send("t", 0, "young")
    assertEquals(view(client, at).code, ResponseCode.SystemError)
    assertEquals(query(client, "k").code, ResponseCode.QueryNotFound)
  }
}

class QueryBytesSuite extends BrokerSuite {
  override def settings: Map[String, String] = Map("maxPullBytes" -> "10000")

  broker.test("an answer has the newest messages up to a number of bytes, and one at least") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    def found(): Seq[Int] = {
      val answer =
        client.call(RequestCode.QueryMessage, "topic" -> "t", "key" -> "k", "maxNum" -> "64")
      assertEquals(answer.code, 0)
      bodies(answer).map(_.length)
    }
    (1 to 20).foreach(i => client.send("t", 0, "x" * (1000 + i), "KEYS\u0001k\u0002"))
    assertEquals(found(), (0 until 8).map(1020 - _))
    client.send("t", 0, "x" * 20000, "KEYS\u0001k\u0002")
    assertEquals(found(), Seq(20000))
  }
}
