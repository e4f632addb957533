package rmqordered.handler

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}

class PullHandlerSuite extends BrokerSuite {
  private val Suspend = 4 | 2
  private val Commit = 4 | 1

  private def pull(client: TestClient, start: Long, extra: (String, String)*): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields("t", 0, start, extra: _*))
    client.receive()
  }

  private def filled(b: TestBroker, count: Int): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    (0 until count).foreach(i =>
      client.send("t", 0, s"m$i", if (i % 2 == 0) "TAGS\u0001even\u0002" else "")
    )
    client
  }

  private def outcome(answer: RemotingCommand) =
    (answer.code, answer.ext("nextBeginOffset").get.toLong)

  broker.test("every offset inside and outside the queue gets RocketMQ's code and next offset") {
    b =>
      val client = filled(b, 0)
      assertEquals(outcome(pull(client, 0)), (ResponseCode.PullNotFound, 0L))
      assertEquals(outcome(pull(client, 5)), (ResponseCode.PullOffsetMoved, 0L))
      (0 until 3).foreach(i => client.send("t", 0, s"m$i"))
      assertEquals(outcome(pull(client, 3)), (ResponseCode.PullNotFound, 3L))
      assertEquals(outcome(pull(client, 4)), (ResponseCode.PullOffsetMoved, 3L))
      assertEquals(outcome(pull(client, -1)), (ResponseCode.PullOffsetMoved, 0L))
      val found = pull(client, 1)
      assertEquals(outcome(found), (ResponseCode.Success, 3L))
      assertEquals((found.ext("minOffset"), found.ext("maxOffset")), (Some("0"), Some("3")))
      assertEquals(found.ext("suggestWhichBrokerId"), Some("0"))
      assertEquals(bodies(found), Seq("m1", "m2"))
  }

  broker.test("a tag filter lets its tags through and says when nothing matched") { b =>
    val client = filled(b, 5)
    assertEquals(bodies(pull(client, 0, "subscription" -> "even || odd")), Seq("m0", "m2", "m4"))
    assertEquals(
      outcome(pull(client, 0, "subscription" -> "nothing")),
      (ResponseCode.PullRetryImmediately, 5L)
    )
  }

  broker.test(
    "without a byte limit RocketMQ's 32 messages are the most, with one what was asked for"
  ) { b =>
    val client = filled(b, 100)
    assertEquals(records(pull(client, 0, "maxMsgNums" -> "4096")).length, 32)
    assertEquals(
      records(pull(client, 0, "maxMsgNums" -> "4096", "maxMsgBytes" -> "4194304")).length,
      100
    )
    assertEquals(
      records(pull(client, 0, "maxMsgNums" -> "50", "maxMsgBytes" -> "4194304")).length,
      50
    )
    assertEquals(records(pull(client, 0, "maxMsgNums" -> "50", "maxMsgBytes" -> "1")).length, 1)
    assertEquals(records(pull(client, 0, "maxMsgNums" -> "0")).length, 1)
  }

  broker.test("topics, queues and groups that are wrong get their codes") { b =>
    val client = filled(b, 1)
    assertEquals(pull(client, 0, "topic" -> "unknown").code, ResponseCode.TopicNotExist)
    assertEquals(pull(client, 0, "queueId" -> "2").code, ResponseCode.InvalidParameter)
    assertEquals(pull(client, 0, "queueId" -> "-1").code, ResponseCode.InvalidParameter)
    assertEquals(pull(client, 0, "consumerGroup" -> "a/b").code, ResponseCode.InvalidParameter)
    assertEquals(
      pull(client, 0, "expressionType" -> "SQL92").code,
      ResponseCode.SubscriptionParseFailed
    )
    assertEquals(pull(client, 0, "expressionType" -> "CLASS").code, ResponseCode.SystemError)
  }

  broker.test("without a subscription in the request the heartbeat's counts") { b =>
    val client = filled(b, 1)
    assertEquals(pull(client, 0, "sysFlag" -> "0").code, ResponseCode.SubscriptionNotExist)
    client.heartbeat("c1", "g", "other")
    client.receive()
    assertEquals(pull(client, 0, "sysFlag" -> "0").code, ResponseCode.SubscriptionNotExist)
    client.heartbeat("c1", "g", "t")
    client.receive()
    assertEquals(pull(client, 0, "sysFlag" -> "0").code, ResponseCode.Success)
    assertEquals(pull(client, 0, "sysFlag" -> "0", "subVersion" -> "2").code, ResponseCode.Success)
    assertEquals(
      pull(client, 0, "sysFlag" -> "0", "subVersion" -> "2", "expressionType" -> "SQL92").code,
      ResponseCode.SubscriptionNotLatest
    )
    val narrow = TestClient.heartbeat("c1", "g", Seq("t"))
    narrow
      .at("/consumerDataSet/0/subscriptionDataSet/0")
      .asInstanceOf[ObjectNode]
      .put("subString", "A")
      .put("subVersion", 3L)
    client.callJson(RequestCode.HeartBeat, narrow)
    assertEquals(
      pull(client, 0, "sysFlag" -> "0", "subVersion" -> "4").code,
      ResponseCode.SubscriptionNotLatest
    )
  }

  broker.test("a long poll is answered by the message it waits for") { b =>
    val client = filled(b, 1)
    val producer = b.connect()
    client.request(RequestCode.PullMessage, pullFields("t", 0, 1, "sysFlag" -> s"$Suspend"))
    assert(!client.hasAnswer)
    producer.send("t", 1, "another queue")
    assert(!client.hasAnswer)
    producer.send("t", 0, "awaited")
    assertEquals(bodies(client.receive()), Seq("awaited"))
  }

  broker.test("a long poll with a filter sleeps through what does not match") { b =>
    val client = filled(b, 1)
    val producer = b.connect()
    val fields = pullFields("t", 0, 1, "sysFlag" -> s"$Suspend", "subscription" -> "even")
    client.request(RequestCode.PullMessage, fields)
    (1 to 3).foreach(i => producer.send("t", 0, s"odd $i"))
    assert(!client.hasAnswer)
    producer.send("t", 0, "match", "TAGS\u0001even\u0002")
    assertEquals(bodies(client.receive()), Seq("match"))
  }

  broker.test("a long poll ends at its time with nothing found") { b =>
    val client = filled(b, 1)
    client.request(RequestCode.LitePullMessage, pullFields("t", 0, 1, "sysFlag" -> s"$Suspend"))
    b.clock.advance(14999)
    b.tick()
    assert(!client.hasAnswer)
    b.clock.advance(1)
    b.tick()
    assertEquals(outcome(client.receive()), (ResponseCode.PullNotFound, 1L))
  }

  broker.test("only a pull that finds nothing new waits") { b =>
    val client = filled(b, 1)
    assertEquals(pull(client, 9, "sysFlag" -> s"$Suspend").code, ResponseCode.PullOffsetMoved)
    val nothing = pull(client, 0, "sysFlag" -> s"$Suspend", "subscription" -> "nothing")
    assertEquals(nothing.code, ResponseCode.PullRetryImmediately)
  }

  broker.test("waiting polls are answered when the broker stops, and gone with their connection") {
    b =>
      val client = filled(b, 1)
      val leaving = b.connect()
      Seq(client, leaving).foreach { c =>
        c.request(RequestCode.PullMessage, pullFields("t", 0, 1, "sysFlag" -> s"$Suspend"))
      }
      leaving.disconnect()
      b.core.releasePolls()
      assertEquals(client.receive().code, ResponseCode.PullNotFound)
      assert(!leaving.hasAnswer)
      assertEquals(pull(client, 1, "sysFlag" -> s"$Suspend").code, ResponseCode.PullNotFound)
  }

  broker.test("the commit bit commits at once, even when the poll then waits") { b =>
    val client = filled(b, 3)
    def committed = client
      .call(
        RequestCode.QueryConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0"
      )
      .ext("offset")
    pull(client, 0, "sysFlag" -> s"$Commit", "commitOffset" -> "2")
    assertEquals(committed, Some("2"))
    val waiting = b.connect()
    val fields = pullFields("t", 0, 3, "sysFlag" -> s"${Commit | Suspend}", "commitOffset" -> "3")
    waiting.request(RequestCode.PullMessage, fields)
    assertEquals(committed, Some("3"))
  }

  broker.test(
    "a pull under a live epoch is served, under any other refused with who holds the queue".proves(
      "stale-lease-refused"
    )
  ) { b =>
    val client = filled(b, 1)
    assertEquals(pull(client, 0, "leaseEpoch" -> "1").code, ResponseCode.StaleLeaseEpoch)
    client.lock("c1", "g", "t", 0)
    assertEquals(pull(client, 0, "leaseEpoch" -> "1").code, ResponseCode.Success)
    b.clock.advance(60001)
    assertEquals(pull(client, 0, "leaseEpoch" -> "1").code, ResponseCode.StaleLeaseEpoch)
    client.lock("c2", "g", "t", 0)
    val stale = pull(client, 0, "leaseEpoch" -> "1")
    assertEquals(
      stale.remark,
      Some(
        "Lease epoch 1 of group g on queue t:0 is not live; the queue is held by c2 under epoch 2."
      )
    )
    assertEquals(pull(client, 0, "leaseEpoch" -> "2").code, ResponseCode.Success)
    assertEquals(pull(client, 0).code, ResponseCode.Success)
  }

  broker.test("a pull commits under its own epoch only, and never back") { b =>
    val client = filled(b, 5)
    def committed = client
      .call(
        RequestCode.QueryConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0"
      )
      .ext("offset")
    def commit(offset: Int, epoch: Int) =
      pull(
        client,
        0,
        "sysFlag" -> "5",
        "commitOffset" -> s"$offset",
        "leaseEpoch" -> s"$epoch"
      ).code
    client.lock("c1", "g", "t", 0)
    assertEquals((commit(3, 1), committed), (ResponseCode.Success, Some("3")))
    assertEquals((commit(2, 1), committed), (ResponseCode.Success, Some("3")))
    client.unlock("c1", "g", "t", 0)
    client.lock("c2", "g", "t", 0)
    assertEquals((commit(5, 1), committed), (ResponseCode.StaleLeaseEpoch, Some("3")))
  }

  broker.test(
    "a long poll's epoch is checked again when it is woken".proves("stale-lease-refused")
  ) { b =>
    val client = filled(b, 1)
    client.lock("c1", "g", "t", 0)
    val fields = pullFields("t", 0, 1, "sysFlag" -> s"$Suspend", "leaseEpoch" -> "1")
    client.request(RequestCode.PullMessage, fields)
    assert(!client.hasAnswer)
    val thief = b.connect()
    thief.unlock("c1", "g", "t", 0)
    thief.lock("c2", "g", "t", 0)
    thief.send("t", 0, "not for c1")
    assertEquals(client.receive().code, ResponseCode.StaleLeaseEpoch)
  }
}

class ParkedPullLimitSuite extends BrokerSuite {
  override def settings: Map[String, String] = Map("maxParkedPulls" -> "2")

  broker.test("polls beyond the limit are answered at once instead of waiting") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    (1 to 2).foreach(_ =>
      client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "sysFlag" -> "6"))
    )
    assert(!client.hasAnswer)
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "sysFlag" -> "6"))
    assertEquals(client.receive().code, ResponseCode.PullNotFound)
    assert(!client.hasAnswer)
  }
}
