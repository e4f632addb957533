package rmqordered.handler

import java.nio.file.Path

import rmqordered.handler.TestClient._
import rmqordered.protocol.{MessageProperties, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.schedule.Redelivery
import rmqordered.store.StoreFixture
import rmqordered.util.Eventually

/** Messages with a delay level or a time of their own, through a whole broker. */
class DelayedDeliverySuite extends BrokerSuite {

  private def pull(client: TestClient, topic: String, queueId: Int = 0): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields(topic, queueId, 0))
    client.receive()
  }

  private def delivered(client: TestClient): Seq[String] = bodies(pull(client, "t"))

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    client
  }

  private def level(level: Int): String = s"DELAY\u0001$level\u0002"

  /** Advances the clock and lets deliveries, which are stored by another thread, come through. */
  private def advance(b: TestBroker, client: TestClient, millis: Long, wanted: Int): Unit = {
    b.clock.advance(millis)
    Eventually {
      b.tick()
      delivered(client).length >= wanted
    }
  }

  broker.test("each of the 18 levels waits for its time and no longer") { b =>
    val client = ready(b)
    val seconds =
      Seq(1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
    seconds.indices.foreach(i =>
      assertEquals(client.send("t", 0, s"level ${i + 1}", level(i + 1)).code, 0)
    )
    var elapsed = 0L
    seconds.zipWithIndex.foreach { case (wait, i) =>
      b.clock.advance(wait * 1000L - 1 - elapsed)
      b.tick()
      assertEquals(delivered(client).length, i)
      advance(b, client, 1, i + 1)
      elapsed = wait * 1000L
    }
    assertEquals(delivered(client), (1 to 18).map(n => s"level $n"))
  }

  broker.test(
    "a delayed message waits where RocketMQ lets it wait, and comes with its properties"
  ) { b =>
    val client = ready(b)
    val answer = client.send("t", 1, "x", level(3) + "TAGS\u0001A\u0002TIMER_DELAY_MS\u00011\u0002")
    assertEquals((answer.ext("queueId"), answer.ext("queueOffset")), (Some("1"), Some("0")))
    val waiting = records(pull(client, "SCHEDULE_TOPIC_XXXX", 2)).head
    val before = Redelivery.propertiesOf(waiting)
    assertEquals((before("REAL_TOPIC"), before("REAL_QID"), before("DELAY")), ("t", "1", "3"))
    b.clock.advance(10000)
    Eventually { b.tick(); pull(client, "t", 1).code == 0 }
    val came = records(pull(client, "t", 1)).head
    val after = Redelivery.propertiesOf(came)
    assertEquals(
      (after.get("DELAY"), after.get("TIMER_DELAY_MS"), after("TAGS")),
      (None, None, "A")
    )
    assertEquals(came.envelope.bornTimestamp, waiting.envelope.bornTimestamp)
  }

  broker.test(
    "a level above the last is the last, below the first no delay, and no number is refused"
  ) { b =>
    val client = ready(b)
    client.send("t", 0, "late", level(99))
    client.send("t", 0, "now", level(0))
    client.send("t", 0, "now too", level(-1))
    assertEquals(delivered(client), Seq("now", "now too"))
    assertEquals(
      client.send("t", 0, "x", "DELAY\u0001soon\u0002").code,
      ResponseCode.MessageIllegal
    )
    advance(b, client, 7200000, 3)
    assertEquals(delivered(client).last, "late")
  }

  broker.test("a message can come at a time, or after seconds or milliseconds") { b =>
    val client = ready(b)
    val now = b.clock.wallMillis()
    client.send("t", 0, "third", s"TIMER_DELIVER_MS\u0001${now + 3000}\u0002")
    client.send("t", 0, "second", "TIMER_DELAY_SEC\u00012\u0002")
    client.send("t", 0, "first", "TIMER_DELAY_MS\u0001700\u0002")
    client.send("t", 0, "past", s"TIMER_DELIVER_MS\u0001${now - 1}\u0002")
    assertEquals(delivered(client), Seq("past"))
    advance(b, client, 700, 2)
    advance(b, client, 1299, 2)
    assertEquals(delivered(client), Seq("past", "first"))
    advance(b, client, 1, 3)
    advance(b, client, 1000, 4)
    assertEquals(delivered(client), Seq("past", "first", "second", "third"))
    val properties = Redelivery.propertiesOf(records(pull(client, "t")).last)
    assertEquals(properties.get("TIMER_OUT_MS"), Some((now + 3000).toString))
    assertEquals(properties.get("REAL_TOPIC"), None)
  }

  broker.test("a time beyond three days, or none at all, is refused") { b =>
    val client = ready(b)
    val threeDays = 3 * 86400
    assertEquals(client.send("t", 0, "x", s"TIMER_DELAY_SEC\u0001$threeDays\u0002").code, 0)
    Seq(s"TIMER_DELAY_SEC\u0001${threeDays + 1}\u0002", "TIMER_DELAY_MS\u0001soon\u0002").foreach {
      p =>
        assertEquals(client.send("t", 0, "x", p).code, ResponseCode.MessageIllegal)
    }
    val overflow = s"TIMER_DELAY_SEC\u0001${Long.MaxValue}\u0002"
    assertEquals(client.send("t", 0, "x", overflow).code, ResponseCode.MessageIllegal)
  }

  broker.test("nobody sends into the waiting rooms directly") { b =>
    val client = ready(b)
    Seq("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer").foreach { topic =>
      assertEquals(client.send(topic, 0, "x").code, ResponseCode.NoPermission)
    }
  }

  broker.test("a message whose topic is deleted meanwhile is given up, those behind it are not") {
    b =>
      val client = ready(b)
      client.createTopic("gone", 1)
      client.send("gone", 0, "lost", level(1))
      client.send("t", 0, "kept", level(1))
      client.send("gone", 0, "lost", "TIMER_DELAY_MS\u0001500\u0002")
      client.send("t", 0, "kept too", "TIMER_DELAY_MS\u00011500\u0002")
      client.call(RequestCode.DeleteTopicInBroker, "topic" -> "gone")
      advance(b, client, 1000, 1)
      advance(b, client, 500, 2)
      assertEquals(delivered(client), Seq("kept", "kept too"))
  }

  broker.test("a clock that is set back does not hold a level's messages for ever") { b =>
    val client = ready(b)
    client.send("t", 0, "x", level(1))
    b.clock.setBack(3600000)
    advance(b, client, 0, 1)
    assertEquals(delivered(client), Seq("x"))
  }

  test("what waits survives a restart, what was delivered is not delivered again") {
    val folder = StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val client = ready(first)
    sendAll(client)
    advance(first, client, 1000, 2)
    first.close()
    val second = new TestBroker(folder)
    second.clock.advance(1000)
    val again = second.connect()
    second.tick()
    assertEquals(delivered(again), Seq("level soon", "timer soon"))
    advance(second, again, 9000, 4)
    assertEquals(
      delivered(again).sorted,
      Seq("level late", "level soon", "timer late", "timer soon")
    )
    second.close()
  }

  test("after a crash nothing that waits is lost, at most something comes twice") {
    val folder = StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val client = ready(first)
    sendAll(client)
    first.clock.advance(1000)
    Eventually {
      first.tick(atLeastEveryMs = 100)
      delivered(client).length >= 2
    }
    val copy = crashed(folder)
    first.close()
    val second = new TestBroker(copy)
    val again = second.connect()
    advance(second, again, 10000, 6)
    val came = delivered(again)
    assertEquals(came.toSet, Set("level late", "level soon", "timer late", "timer soon"))
    assertEquals((came.count(_ == "level soon"), came.count(_ == "level late")), (2, 1))
    second.close()
  }

  private def sendAll(client: TestClient): Unit = {
    client.send("t", 0, "timer late", "TIMER_DELAY_SEC\u000110\u0002")
    client.send("t", 0, "timer soon", "TIMER_DELAY_SEC\u00011\u0002")
    client.send("t", 0, "level late", level(3))
    client.send("t", 0, "level soon", level(1))
  }

  /** What a kill would leave: the files as they are while the broker runs. */
  private def crashed(folder: Path): Path = {
    val copy = StoreFixture.temporaryFolder()
    Eventually.copyTree(folder, copy)
    copy
  }
}

class DelaySettingsSuite extends BrokerSuite {
  override def settings: Map[String, String] =
    Map("messageDelayLevel" -> "2s 1m", "timerMaxWaiting" -> "2")

  broker.test("the levels and the number of messages with a time of their own are settings") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val sent = (1 to 3).map(_ => client.send("t", 0, "x", "TIMER_DELAY_SEC\u00011\u0002").code)
    assertEquals(sent, Seq(0, 0, ResponseCode.MessageIllegal))
    client.send("t", 0, "minute", s"${MessageProperties.Delay}\u00019\u0002")
    b.clock.advance(60000)
    Eventually {
      b.tick()
      client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
      bodies(client.receive()).sorted == Seq("minute", "x", "x")
    }
  }
}
