package rmqordered.handler

import java.nio.file.Files

import rmqordered.handler.IdempotentSendSuite._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.store.StoreFixture

/** Batches with one stamp for all messages: what differs from a stamp in each of them. */
class StampedBatchSuite extends BrokerSuite {

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    client
  }

  private def last(answer: RemotingCommand) =
    Seq("lastBatch", "lastSequence", "lastDigest", "lastOffset").map(answer.ext(_).getOrElse("-"))

  private def outcome(answer: RemotingCommand) =
    (answer.code, answer.ext("duplicate").getOrElse("-"), answer.ext("landed").getOrElse("-"))

  /** The stamps in the records of the queue; empty where there is none. */
  private def stamps(client: TestClient): Seq[String] = {
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "maxMsgNums" -> "100"))
    records(client.receive()).map(_.content.marks.stamp.text)
  }

  broker.test("a repeat adds nothing, an overlap is trimmed, and each append is stamped once") {
    b =>
      val client = ready(b)
      assertEquals(outcome(sendOnce(client, 1, 0 to 2)), (0, "false", "0"))
      val again = sendOnce(client, 1, 0 to 2)
      assertEquals(outcome(again), (0, "true", "3"))
      assertEquals(last(again), Seq("1", "2", digest(1, 2), "2"))
      assertEquals(again.ext("queueOffset"), Some("0"))
      assertEquals(outcome(sendOnce(client, 1, 1 to 4)), (0, "partial", "2"))
      assertEquals(stored(client), (0 to 4).map(i => s"1/$i"))
      assertEquals(
        stamps(client),
        Seq("", "", s"s/1/0/2/${digest(1, 2)}/3", "", s"s/1/0/4/${digest(1, 4)}/2")
      )
  }

  broker.test("a single message may be as large as one without a stamp, several not together") {
    b =>
      val client = ready(b)
      val largest = "x" * (4 * 1024 * 1024)
      def sent(bodies: String*): Int = {
        val batch = bodies.flatMap(record(_, "")).toArray
        sendStamped(client, "s/1/0/0", batch, Array.fill(bodies.length)(7L)).code
      }
      assertEquals(sent(largest + "x"), ResponseCode.MessageIllegal)
      assertEquals(sent(largest, ""), ResponseCode.MessageIllegal)
      assertEquals(sent(largest), ResponseCode.Success)
      assertEquals(last(sendStamped(client, "s/1/0/1", record("y", ""), Array(8L))).last, "1")
  }

  broker.test("both ways of stamping are parts of one stream") { b =>
    val client = ready(b)
    send(client, 1, 0 to 1)
    assertEquals(outcome(sendOnce(client, 1, 1 to 3)), (0, "partial", "1"))
    assertEquals(outcome(send(client, 1, 2 to 5)), (0, "partial", "2"))
    assertEquals(outcome(sendOnce(client, 1, 0 to 5)), (0, "true", "6"))
    assertEquals(stored(client), (0 to 5).map(i => s"1/$i"))
  }

  broker.test("each refusal has its code and what landed last") { b =>
    val client = ready(b)
    assertEquals(sendOnce(client, 1, 3 to 3).code, ResponseCode.StreamUnknown)
    sendOnce(client, 2, 0 to 3)
    val landed = Seq("2", "3", digest(2, 3), "3")
    def refused(answer: RemotingCommand, code: Int): Unit =
      assertEquals((answer.code, last(answer)), (code, landed))
    refused(sendOnce(client, 2, 5 to 5), ResponseCode.SequenceGap)
    refused(sendOnce(client, 3, 1 to 1), ResponseCode.SequenceGap)
    refused(sendOnce(client, 1, 0 to 1), ResponseCode.StaleBatch)
    val others = Array.fill(3)(0xaaL)
    val bodies = (2 to 4).flatMap(i => record(s"$i", "")).toArray
    refused(sendStamped(client, "s/2/0/2", bodies, others), ResponseCode.ReplayDiverged)
    assertEquals(stored(client).length, 4)
  }

  broker.test("other rows before the last one are noticed where an append ended") { b =>
    val client = ready(b)
    sendOnce(client, 1, 0 to 1)
    sendOnce(client, 1, 2 to 5)
    def other(sequences: Range) = {
      val bodies = sequences.flatMap(i => record(s"$i", "")).toArray
      sendStamped(client, s"s/1/0/${sequences.head}", bodies, sequences.map(_ => 0xaaL).toArray)
    }
    val diverged = other(0 to 1)
    assertEquals(
      (diverged.code, last(diverged)),
      (ResponseCode.ReplayDiverged, Seq("1", "1", digest(1, 1), "1"))
    )
    // In between nobody knows; the answer names the last one, which the client has to compare.
    val unseen = other(0 to 3)
    assertEquals(outcome(unseen), (0, "true", "4"))
    assertEquals(last(unseen), Seq("1", "5", digest(1, 5), "5"))
    assertEquals(stored(client).length, 6)
  }

  broker.test("whatever is not exactly one stamped batch is illegal and leaves nothing behind") {
    b =>
      val client = ready(b)
      val (two, digests) = (record("a", "") ++ record("b", ""), Array(1L, 2L))
      def asked(fields: (String, String)*)(body: Array[Byte]): RemotingCommand = {
        client.request(RequestCode.SendBatchMessage, sendFields("t", 0) ++ fields, body)
        client.receive()
      }
      val malformed = Seq(
        sendStamped(client, "s/1/0", two, digests),
        sendStamped(client, "s/1/0/0/0123456789abcdef", two, digests),
        sendStamped(client, "s s/1/0/0", two, digests),
        sendStamped(client, s"s/1/0/${"9" * 18}", two, digests),
        sendStamped(client, "s/1/0/0", two, Array(1L)),
        sendStamped(client, "s/1/0/0", two, Array(1L, 2L, 3L)),
        sendStamped(client, "s/1/0/0", two, Array.empty),
        sendStamped(client, "s/1/0/0", Array.empty, digests),
        sendStamped(client, "s/1/0/0", two ++ record("c", property(1, 2)), Array(1L, 2L, 3L)),
        sendStamped(client, "s/1/0/0", two, digests, queueId = -1),
        asked("stamp" -> "s/1/0/0")(two),
        asked("digests" -> "2")(two),
        asked("stamp" -> "s/1/0/0", "digests" -> "-2")(two),
        asked("stamp" -> "s/1/0/0", "digests" -> s"${Int.MaxValue}")(two),
        asked(
          "stamp" -> "s/1/0/0",
          "digests" -> "2",
          "i" -> property(1, 0)
        )(two ++ new Array[Byte](16))
      )
      malformed.zipWithIndex.foreach { case (answer, number) =>
        assertEquals(answer.code, ResponseCode.MessageIllegal, s"$number: ${answer.remark}")
      }
      client.request(
        RequestCode.SendMessageV2,
        sendFields("t", 0) ++ Map("stamp" -> "s/1/0/0", "digests" -> "1"),
        "alone".getBytes
      )
      assertEquals(client.receive().code, ResponseCode.MessageIllegal)
      val stored6 =
        asked("b" -> "t")(record("x", "RMQO_STAMP\u0001s/1/0/0/0123456789abcdef/1\u0002"))
      assertEquals(
        stored6.code,
        ResponseCode.MessageIllegal,
        "the stored form is not one to be sent"
      )
      assertEquals(stamps(client), Nil)
  }

  broker.test("a stamp in the header of a send where it would mean nothing is illegal") { b =>
    val client = ready(b)
    val body = record("a", "") ++ new Array[Byte](8)
    Seq("%RETRY%g", "%DLQ%g").foreach { topic =>
      val fields = sendFields(topic, 0) ++ Map("stamp" -> "s/1/0/0", "digests" -> "1")
      client.request(RequestCode.SendBatchMessage, fields, body)
      val answer = client.receive()
      assert(answer.code != 0, s"$topic: ${answer.remark}")
    }
  }

  broker.test("properties that leave no room for the stamp are refused before anything lands") {
    b =>
      val client = ready(b)
      def long(bytes: Int) = s"p\u0001${"x" * (bytes - 3)}\u0002"
      val full = sendStamped(
        client,
        "s/1/0/0",
        record("a", "") ++ record("b", long(Short.MaxValue - 10)),
        Array(1L, 2L)
      )
      assertEquals(full.code, ResponseCode.MessageIllegal, full.remark)
      assert(full.remark.exists(_.contains("bytes of properties")), s"${full.remark}")
      assertEquals(stamps(client), Nil)
      // In front of the last one there is nothing to be added.
      val before =
        sendStamped(
          client,
          "s/1/0/0",
          record("b", long(Short.MaxValue)) ++ record("a", ""),
          Array(1L, 2L)
        )
      assertEquals(outcome(before), (0, "false", "0"))
  }

  test("the memory survives a stop, a crash without a snapshot and a trimmed append") {
    val folder = StoreFixture.temporaryFolder()
    val snapshot = folder.resolve("config").resolve("sendStreams.bin")
    def restarted[T](body: TestClient => T): T = {
      val broker = new TestBroker(folder)
      try body(broker.connect())
      finally broker.close()
    }
    restarted { client =>
      client.createTopic("t", 2)
      sendOnce(client, 1, 0 to 2)
    }
    restarted(client => assertEquals(outcome(sendOnce(client, 1, 1 to 5)), (0, "partial", "2")))
    Files.delete(snapshot)
    restarted { client =>
      val again = sendOnce(client, 1, 0 to 5)
      assertEquals(outcome(again), (0, "true", "6"))
      assertEquals(again.ext("queueOffset"), Some("0"), "places are known from the first one on")
      assertEquals(again.ext("msgId").map(_.split(",").count(_.nonEmpty)), Some(6))
      assertEquals(outcome(sendOnce(client, 1, 4 to 7)), (0, "partial", "2"))
      assertEquals(stored(client), (0 to 7).map(i => s"1/$i"))
    }
  }
}
