package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{RequestCode, ResponseCode}

/** What clients see of retention and of a full disk. */
class StoreLimitsSuite extends munit.FunSuite {
  private val hour = 3600000L

  private def using(settings: (String, String)*)(body: TestBroker => Unit): Unit = {
    val broker = new TestBroker(settings = settings.toMap)
    try body(broker)
    finally broker.close()
  }

  test("on a full disk sends are refused with code 14 and a reason, and pulls are answered") {
    using("minFreeDiskBytes" -> Long.MaxValue.toString) { b =>
      val client = b.connect()
      client.createTopic("t", 1)
      val refused = client.send("t", 0, "m")
      assertEquals(refused.code, ResponseCode.ServiceNotAvailable)
      assert(refused.remark.exists(_.contains("the disk is nearly full")), s"${refused.remark}")
      client.request(RequestCode.PullMessage, pullFields("t", 0, 1))
      assertEquals(client.receive().code, ResponseCode.PullOffsetMoved)
    }
  }

  test("retention runs by the broker's timer and clock; pulls below it are told where to go on") {
    val small = Seq("mappedFileSizeCommitLog" -> "70000", "maxMessageSize" -> "4096")
    using(small :+ ("fileReservedTime" -> "2"): _*) { b =>
      val client = b.connect()
      client.createTopic("t", 1)
      (0 until 60).foreach(i => client.send("t", 0, s"$i" + "x" * 3000))
      b.tick()
      b.clock.advance(3 * hour)
      client.send("t", 0, "young")
      b.tick()
      val queue = Seq("topic" -> "t", "queueId" -> "0")
      val min = client.call(RequestCode.GetMinOffset, queue: _*).ext("offset").get
      assert(min.toLong > 20, s"minimum $min")
      client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
      val moved = client.receive()
      assertEquals(moved.code, ResponseCode.PullOffsetMoved)
      assertEquals(moved.ext("nextBeginOffset"), Some(min))
      assertEquals(moved.ext("minOffset"), Some(min))
      client.request(RequestCode.PullMessage, pullFields("t", 0, min.toLong))
      assertEquals(records(client.receive()).head.position.queueOffset, min.toLong)
    }
  }
}
