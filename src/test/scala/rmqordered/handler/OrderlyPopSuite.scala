package rmqordered.handler

import rmqordered.protocol.{RequestCode, ResponseCode}

class OrderlyPopSuite extends BrokerSuite {
  // What comes back is there as soon as the timer has run.
  override def settings: Map[String, String] = Map("flushDiskType" -> "ASYNC_FLUSH")
  private val orderly = Seq("order" -> "true", "queueId" -> "0", "maxMsgNums" -> "2")

  private def filled(broker: TestBroker, count: Int): (TestClient, Popper) = {
    val client = broker.connect()
    client.createTopic("t", 1)
    (0 until count).foreach(i => client.send("t", 0, s"m$i"))
    (client, new Popper(client, "t"))
  }

  private def pop(popper: Popper, extra: (String, String)*): Vector[Popped] =
    popper.pop(orderly ++ extra: _*)

  broker.test("a queue is blocked until everything handed out is acknowledged") { broker =>
    val (_, popper) = filled(broker, 4)
    val first = pop(popper)
    assertEquals(first.map(_.body), Vector("m0", "m1"))
    assertEquals(pop(popper), Vector.empty)
    popper.ack(first(1))
    assertEquals(pop(popper), Vector.empty)
    popper.ack(first(0))
    assertEquals(pop(popper).map(_.body), Vector("m2", "m3"))
  }

  broker.test("what times out comes again in place, without what was acknowledged") { broker =>
    val (client, popper) = filled(broker, 4)
    val first = pop(popper)
    popper.ack(first(1))
    broker.clock.advance(60000L)
    val answer = popper.ask(orderly: _*)
    assertEquals(popper.messages(answer).map(_.body), Vector("m0"))
    assertEquals(answer.ext("orderCountInfo"), Some("0 qo0%0 1;0 0 1"))
    assertEquals(answer.ext("reviveQid"), Some("999"))
    popper.messages(answer).foreach(popper.ack(_))
    assertEquals(pop(popper).map(_.body), Vector("m2", "m3"))
    assert(!client.hasAnswer)
  }

  broker.test("the same attempt gets the same messages again at once, others do not") { broker =>
    val (_, popper) = filled(broker, 3)
    val first = pop(popper, "attemptId" -> "a")
    assertEquals(pop(popper, "attemptId" -> "b"), Vector.empty)
    assertEquals(pop(popper, "attemptId" -> "a").map(_.body), first.map(_.body))
  }

  broker.test("a parked orderly pop wakes when the block ends by an ack or by time") { broker =>
    val (_, popper) = filled(broker, 3)
    val first = pop(popper)
    val waiting = broker.connect()
    val other = new Popper(waiting, "t")
    other.request(orderly :+ ("pollTime" -> "15000"): _*)
    first.foreach(popper.ack(_))
    assertEquals(other.messages(waiting.receive()).map(_.body), Vector("m2"))
    other.request(orderly :+ ("pollTime" -> "100000"): _*)
    assert(!waiting.hasAnswer)
    broker.clock.advance(60000L)
    broker.tick(200L)
    assertEquals(other.messages(waiting.receive()).map(_.body), Vector("m2"))
  }

  broker.test("a changed time of an orderly message is when it comes again") { broker =>
    val (_, popper) = filled(broker, 1)
    val out = pop(popper).head
    val answer = popper.changeRequest(out, 1000L)
    assertEquals(answer.ext("popTime"), Some(out.popTime.toString))
    broker.clock.advance(999L)
    assertEquals(pop(popper), Vector.empty)
    broker.clock.advance(1L)
    assertEquals(pop(popper).map(_.body), Vector("m0"))
  }

  broker.test("old, unknown and repeated orderly handles settle nothing") { broker =>
    val (_, popper) = filled(broker, 3)
    val first = pop(popper)
    broker.clock.advance(60000L)
    val second = pop(popper)
    first.foreach(one => assertEquals(popper.ack(one).code, 0))
    assertEquals(pop(popper), Vector.empty)
    val unknown = second.head.handle.split(' ').dropRight(1).mkString(" ") + " 2"
    val answer = popper.ack(second.head, "offset" -> "2", "extraInfo" -> unknown)
    assertEquals(answer.code, ResponseCode.MessageIllegal)
    second.foreach(one => assertEquals(popper.ack(one).code, 0))
    second.foreach(one => assertEquals(popper.ack(one).code, 0))
    assertEquals(pop(popper).map(_.body), Vector("m2"))
  }

  broker.test("a reset clears what an orderly pop handed out") { broker =>
    val (client, popper) = filled(broker, 3)
    assertEquals(pop(popper).length, 2)
    client.call(
      RequestCode.InvokeBrokerToResetOffset,
      "topic" -> "t",
      "group" -> "g",
      "timestamp" -> "-1",
      "isForce" -> "true"
    )
    client.send("t", 0, "new")
    assertEquals(pop(popper).map(_.body), Vector("new"))
  }
}
