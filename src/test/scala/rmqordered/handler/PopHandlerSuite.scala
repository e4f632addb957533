package rmqordered.handler

import rmqordered.protocol.{RequestCode, ResponseCode}
import rmqordered.util.Json

class PopHandlerSuite extends BrokerSuite {
  // What comes back is there as soon as the timer has run.
  override def settings: Map[String, String] = Map("flushDiskType" -> "ASYNC_FLUSH")

  private def filled(broker: TestBroker, count: Int, queues: Int = 1): (TestClient, Popper) = {
    val client = broker.connect()
    client.createTopic("t", queues)
    (0 until count).foreach(i => client.send("t", i % queues, s"m$i"))
    (client, new Popper(client, "t"))
  }

  private def bodies(popped: Seq[Popped]): Seq[String] = popped.map(_.body)

  broker.test("a pop of all queues brings the messages of each, with handles that acknowledge") {
    broker =>
      val (client, popper) = filled(broker, 6, queues = 3)
      val popped = popper.pop()
      assertEquals(bodies(popped).sorted, (0 until 6).map(i => s"m$i"))
      popped.foreach(one => assertEquals(popper.ack(one).code, 0))
      broker.clock.advance(120000L)
      broker.tick(200L)
      assertEquals(popper.pop(), Vector.empty)
      assert(!client.hasAnswer)
  }

  broker.test("what is not acknowledged comes again under the topic's name, counted") { broker =>
    val (_, popper) = filled(broker, 2)
    val first = popper.pop()
    popper.ack(first.head)
    broker.clock.advance(60000L)
    broker.tick(200L)
    val again = popper.pop().head
    assertEquals((again.body, again.record.envelope.reconsumeTimes), ("m1", 1))
    assertEquals(again.record.envelope.topic, "t")
    assertEquals(again.physicalTopic, "%RETRY%g_t")
    assertEquals(popper.ackAll(Vector(again)).code, 0)
    broker.clock.advance(600000L)
    broker.tick(200L)
    assertEquals(popper.pop(), Vector.empty)
  }

  broker.test("a second time-out makes a message wait before it comes again") { broker =>
    val (_, popper) = filled(broker, 1)
    popper.pop()
    broker.clock.advance(60000L)
    broker.tick(200L)
    assertEquals(popper.pop().length, 1)
    broker.clock.advance(60000L)
    broker.tick(200L)
    assertEquals(popper.pop(), Vector.empty)
    broker.clock.advance(10000L)
    broker.tick(200L)
    assertEquals(popper.pop().map(_.record.envelope.reconsumeTimes), Vector(2))
  }

  broker.test("a message that was tried too often goes to the dead letters") { broker =>
    val (client, popper) = filled(broker, 1)
    client.callJson(
      RequestCode.UpdateAndCreateSubscriptionGroup,
      Json.obj().put("groupName", "g").put("retryMaxTimes", 1)
    )
    (0 until 2).foreach { _ =>
      assertEquals(popper.pop().length, 1)
      broker.clock.advance(60000L)
      broker.tick(200L)
    }
    broker.clock.advance(7200000L)
    broker.tick(200L)
    assertEquals(popper.pop(), Vector.empty)
    client.request(RequestCode.PullMessage, TestClient.pullFields("%DLQ%g", 0, 0L))
    assertEquals(TestClient.bodies(client.receive()), Seq("m0"))
  }

  broker.test("a pop that waits is answered by an arrival, also in the retry topic") { broker =>
    val (client, popper) = filled(broker, 1)
    val out = popper.pop().head
    val waiting = broker.connect()
    val other = new Popper(waiting, "t")
    other.request("pollTime" -> "15000")
    assert(!waiting.hasAnswer)
    popper.change(out, 1000L)
    // One more: the handle must differ from the first one of this millisecond.
    broker.clock.advance(1001L)
    broker.tick(200L)
    assertEquals(bodies(other.messages(waiting.receive())), Seq("m0"))
    other.request("pollTime" -> "15000")
    client.send("t", 0, "new")
    assertEquals(bodies(other.messages(waiting.receive())), Seq("new"))
  }

  broker.test("a pop that waits in vain is told so when its time is over") { broker =>
    val (client, popper) = filled(broker, 0)
    popper.request("pollTime" -> "15000")
    assert(!client.hasAnswer)
    broker.clock.advance(14999L)
    broker.tick(200L)
    assertEquals(client.receive().code, ResponseCode.PollingTimeout)
    assertEquals(popper.ask().code, ResponseCode.PollingTimeout)
  }

  broker.test("a topic that has no queue to read has nothing to pop") { broker =>
    val (client, popper) = filled(broker, 1)
    client.createTopic("t", 0)
    assertEquals(popper.ask("pollTime" -> "0").code, ResponseCode.PollingTimeout)
  }

  broker.test("filters hold back what a group does not want") { broker =>
    val (client, _) = filled(broker, 0)
    client.send("t", 0, "a", "TAGS\u0001A\u0002n\u00011\u0002")
    client.send("t", 0, "b", "TAGS\u0001B\u0002n\u00015\u0002")
    client.send("t", 0, "c", "TAGS\u0001A\u0002n\u00019\u0002")
    val tagged = new Popper(client, "t", "tags").pop("exp" -> "A")
    assertEquals(bodies(tagged), Seq("a", "c"))
    tagged.foreach(one => assertEquals(new Popper(client, "t", "tags").ack(one).code, 0))
    val sql = new Popper(client, "t", "sql").pop("exp" -> "n > 3", "expType" -> "SQL92")
    assertEquals(bodies(sql), Seq("b", "c"))
    val bad = new Popper(client, "t", "sql").ask("exp" -> "n >", "expType" -> "SQL92")
    assertEquals(bad.code, ResponseCode.SubscriptionParseFailed)
    broker.clock.advance(60000L)
    broker.tick(200L)
    assertEquals(new Popper(client, "t", "tags").pop("exp" -> "A"), Vector.empty)
  }

  broker.test("bad handles are refused or do nothing, and the message stays out") { broker =>
    val (client, popper) = filled(broker, 1)
    val out = popper.pop().head
    def ack(fields: (String, String)*): Int = popper.ack(out, fields: _*).code
    assertEquals(ack("extraInfo" -> "nonsense"), ResponseCode.InvalidParameter)
    assertEquals(ack("extraInfo" -> out.handle.replace(s"${out.popTime}", "1")), 0)
    assertEquals(ack("consumerGroup" -> "another"), 0)
    assertEquals(ack("topic" -> "nowhere"), ResponseCode.TopicNotExist)
    assertEquals(ack("queueId" -> "7"), ResponseCode.MessageIllegal)
    assertEquals(ack("offset" -> "99"), ResponseCode.NoMessage)
    Seq(0L, -1L, Long.MaxValue).foreach { millis =>
      assertEquals(popper.changeRequest(out, millis).code, ResponseCode.InvalidParameter)
    }
    assertEquals(client.call(RequestCode.BatchAckMessage).code, ResponseCode.NoMessage)
    broker.clock.advance(60000L)
    broker.tick(200L)
    assertEquals(bodies(popper.pop()), Seq("m0"))
    // Expired: the old handle's message went to the retry topic meanwhile.
    assertEquals(popper.ack(out).code, 0)
    assertEquals(popper.change(out, 1000L).body, "m0")
    broker.clock.advance(30000L)
    broker.tick(200L)
    assertEquals(popper.pop(), Vector.empty)
  }

  broker.test("a second acknowledgement of a message does nothing") { broker =>
    val (_, popper) = filled(broker, 2)
    val popped = popper.pop()
    (0 until 2).foreach(_ => assertEquals(popper.ack(popped.head).code, 0))
    broker.clock.advance(60000L)
    broker.tick(200L)
    assertEquals(bodies(popper.pop()), Seq(popped.last.body))
  }

  broker.test("bad pops are refused with RocketMQ's codes") { broker =>
    val (client, popper) = filled(broker, 1)
    def code(fields: (String, String)*): Int = popper.ask(fields: _*).code
    assertEquals(code("topic" -> "nowhere"), ResponseCode.TopicNotExist)
    assertEquals(code("maxMsgNums" -> "33"), ResponseCode.InvalidParameter)
    assertEquals(code("queueId" -> "1"), ResponseCode.InvalidParameter)
    assertEquals(code("invisibleTime" -> "0"), ResponseCode.InvalidParameter)
    assertEquals(code("consumerGroup" -> "a group"), ResponseCode.InvalidParameter)
    assertEquals(code("bornTime" -> "1000"), ResponseCode.PollingTimeout)
    assertEquals(popper.pop().length, 1)
    assert(!client.hasAnswer)
  }

  broker.test("a notification says whether there is something to pop") { broker =>
    val (client, popper) = filled(broker, 0)
    def ask(poll: Int) = client.request(
      RequestCode.Notification,
      Map(
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "-1",
        "pollTime" -> poll.toString,
        "bornTime" -> "0"
      )
    )
    ask(0)
    assertEquals(client.receive().ext("hasMsg"), Some("false"))
    ask(15000)
    val polling = client.call(
      RequestCode.PollingInfo,
      "consumerGroup" -> "g",
      "topic" -> "t",
      "queueId" -> "-1"
    )
    assertEquals(polling.ext("pollingNum"), Some("1"))
    val sender = broker.connect()
    sender.send("t", 0, "x")
    assertEquals(client.receive().ext("hasMsg"), Some("true"))
    assertEquals(bodies(popper.pop()), Seq("x"))
    ask(0)
    assertEquals(client.receive().ext("hasMsg"), Some("false"))
  }

  broker.test("a reset is where the next pop begins, and pulls and pops share one progress") {
    broker =>
      val (client, popper) = filled(broker, 4)
      assertEquals(popper.pop("maxMsgNums" -> "2").length, 2)
      val committed = client.call(
        RequestCode.QueryConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0"
      )
      assertEquals(committed.ext("offset"), Some("2"))
      client.call(
        RequestCode.UpdateConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0",
        "commitOffset" -> "3"
      )
      assertEquals(bodies(popper.pop()), Seq("m3"))
      client.call(
        RequestCode.InvokeBrokerToResetOffset,
        "topic" -> "t",
        "group" -> "g",
        "timestamp" -> "0",
        "isForce" -> "true"
      )
      assertEquals(bodies(popper.pop()), Seq("m0", "m1", "m2", "m3"))
  }

  broker.test("a topic made anew is popped from its beginning") { broker =>
    val (client, popper) = filled(broker, 3)
    assertEquals(popper.pop().length, 3)
    client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
    client.createTopic("t", 1)
    client.send("t", 0, "new")
    assertEquals(bodies(popper.pop()), Seq("new"))
  }

  broker.test("what is out can be asked for") { broker =>
    val (client, popper) = filled(broker, 3)
    val popped = popper.pop("maxMsgNums" -> "2")
    popper.ack(popped.head)
    val node = TestClient.json(client.call(RequestCode.GetPopState)).path("queues").get(0)
    assertEquals(node.path("inFlight").asInt(), 1)
    assertEquals(node.path("nextOffset").asLong(), 2L)
    assertEquals(node.path("maxOffset").asLong(), 3L)
    assertEquals(node.path("oldestPopTime").asLong(), popped.head.popTime)
  }
}
