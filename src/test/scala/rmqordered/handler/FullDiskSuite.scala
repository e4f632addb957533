package rmqordered.handler

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RequestCode, ResponseCode}
import rmqordered.store.{LimitedDisk, StoreFixture}
import rmqordered.util.Eventually

/** What the broker itself stores (delayed messages, retries) while the disk takes nothing. */
class FullDiskSuite extends munit.FunSuite {

  private def delivered(client: TestClient): Seq[String] = {
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
    bodies(client.receive()).sorted
  }

  test(
    "what comes due on a full disk waits, and comes once when there is room".proves("retention")
  ) {
    val disk = new LimitedDisk
    val broker = new TestBroker(settings = Map("minFreeDiskBytes" -> "1000"), files = disk)
    val client = broker.connect()
    client.createTopic("t", 1)
    client.send("t", 0, "level", "DELAY\u00011\u0002")
    client.send("t", 0, "timer", "TIMER_DELAY_SEC\u00011\u0002")
    disk.usable = 999
    broker.tick()
    broker.clock.advance(5000)
    (0 until 5).foreach(_ => broker.tick())
    assertEquals(client.send("t", 0, "refused").code, ResponseCode.ServiceNotAvailable)
    assertEquals(delivered(client), Nil)
    disk.usable = Long.MaxValue
    Eventually {
      broker.tick()
      delivered(client).length >= 2
    }
    (0 until 5).foreach(_ => broker.tick())
    assertEquals(delivered(client), Seq("level", "timer"))
    broker.close()
  }

  test("a delivery for which the disk has no room is tried again, and nothing comes twice") {
    val disk = new LimitedDisk
    val broker = new TestBroker(files = disk)
    val client = broker.connect()
    client.createTopic("t", 1)
    client.send("t", 0, "level", "DELAY\u00011\u0002")
    client.send("t", 0, "timer", "TIMER_DELAY_SEC\u00011\u0002")
    disk.isFull = true
    broker.clock.advance(5000)
    (0 until 5).foreach(_ => broker.tick(atLeastEveryMs = 100))
    assertEquals(client.send("t", 0, "refused").code, ResponseCode.ServiceNotAvailable)
    assertEquals(delivered(client), Nil)
    disk.isFull = false
    Eventually {
      broker.tick(atLeastEveryMs = 100)
      delivered(client).length >= 2
    }
    (0 until 5).foreach(_ => broker.tick(atLeastEveryMs = 100))
    assertEquals(delivered(client), Seq("level", "timer"))
    broker.close()
  }

  test("a message given back on a full disk is refused, so that its consumer keeps it") {
    val disk = new LimitedDisk
    val broker = new TestBroker(settings = Map("minFreeDiskBytes" -> "1000"), files = disk)
    val client = broker.connect()
    client.createTopic("t", 1)
    client.send("t", 0, "m")
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
    val at = records(client.receive()).head.position.commitLogOffset
    def giveBack() = client.call(
      RequestCode.ConsumerSendMsgBack,
      "group" -> "g",
      "offset" -> at.toString,
      "delayLevel" -> "0"
    )
    disk.usable = 999
    broker.tick()
    assertEquals(giveBack().code, ResponseCode.ServiceNotAvailable)
    disk.usable = Long.MaxValue
    broker.tick()
    assertEquals(giveBack().code, 0)
    broker.close()
  }

  test("a new group reads and joins on a full disk, and is written when there is room".proves(
    "new-group-reads-on-full-disk"
  )) {
    val disk = new LimitedDisk
    val folder = StoreFixture.temporaryFolder()
    val broker = new TestBroker(folder, files = disk)
    val client = broker.connect()
    client.createTopic("t", 1)
    client.send("t", 0, "m")
    disk.isFull = true
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "consumerGroup" -> "puller"))
    assertEquals(bodies(client.receive()), Seq("m"))
    client.heartbeat("c1", "member", "t")
    assertEquals(client.receive().code, 0)
    val plain = pullFields("t", 0, 0, "consumerGroup" -> "member", "sysFlag" -> "0")
    client.request(RequestCode.PullMessage, plain)
    assertEquals(bodies(client.receive()), Seq("m"))
    broker.tick(atLeastEveryMs = 1000)
    disk.isFull = false
    broker.tick(atLeastEveryMs = 1000)
    broker.close()
    val again = new TestBroker(folder)
    val config = again.connect().call(RequestCode.GetSubscriptionGroupConfig, "group" -> "puller")
    assertEquals(config.code, 0)
    again.close()
  }
}
