package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}

/** Offset resets (222), as the group's consumers then see them. */
class ResetHandlerSuite extends BrokerSuite {
  private val queue = """{"brokerName":"broker-a","queueId":0,"topic":"t"}"""

  /** Five messages a second apart in queue 0 of two, and the group at 4. */
  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    client.heartbeat("c1", "g", "t")
    client.receive()
    (0 until 5).foreach { n =>
      client.send("t", 0, s"m$n")
      b.clock.advance(1000)
    }
    commit(client, 4)
    client
  }

  private def reset(client: TestClient, fields: (String, String)*): RemotingCommand =
    client.call(
      RequestCode.InvokeBrokerToResetOffset,
      (Map(
        "topic" -> "t",
        "group" -> "g",
        "timestamp" -> "-1",
        "isForce" -> "true"
      ) ++ fields).toSeq: _*
    )

  private def commit(client: TestClient, offset: Long, extra: (String, String)*): RemotingCommand =
    client.call(
      RequestCode.UpdateConsumerOffset,
      Seq(
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0",
        "commitOffset" -> s"$offset"
      ) ++ extra: _*
    )

  private def committed(client: TestClient): Option[String] =
    client
      .call(
        RequestCode.QueryConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0"
      )
      .ext("offset")

  private def pull(client: TestClient, start: Long, extra: (String, String)*): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields("t", 0, start, extra: _*))
    client.receive()
  }

  broker.test("a reset to a time is told in RocketMQ's form and found by the next query") { b =>
    val client = ready(b)
    val answer = reset(client, "timestamp" -> (b.clock.wallMillis() - 3000).toString)
    assertEquals(answer.code, 0)
    assertEquals(
      new String(answer.body.toArray),
      s"""{"offsetTable":{$queue:2,{"brokerName":"broker-a","queueId":1,"topic":"t"}:0}}"""
    )
    assertEquals(committed(client), Some("2"))
  }

  broker.test("until a pull has heard of it, commits of the unknowing are ignored") { b =>
    val client = ready(b)
    reset(client, "queueId" -> "0", "offset" -> "1")
    assertEquals(commit(client, 5).code, 0)
    assertEquals(committed(client), Some("1"))
    val moved = pull(client, 5, "sysFlag" -> "5", "commitOffset" -> "5")
    assertEquals(
      (moved.code, moved.ext("nextBeginOffset")),
      (ResponseCode.PullOffsetMoved, Some("1"))
    )
    assertEquals(committed(client), Some("1"))
    assertEquals(bodies(pull(client, 1)).head, "m1")
    commit(client, 3)
    assertEquals(committed(client), Some("3"))
  }

  broker.test("a negative timestamp means the end, one queue alone can be reset") { b =>
    val client = ready(b)
    assertEquals(queueTable(reset(client)).get(queue).asLong(), 5L)
    val one = queueTable(reset(client, "queueId" -> "0", "timestamp" -> "0"))
    assertEquals((one.size(), one.get(queue).asLong()), (1, 0L))
  }

  broker.test("what cannot be reset is refused with RocketMQ's codes") { b =>
    val client = ready(b)
    assertEquals(reset(client, "topic" -> "none").code, ResponseCode.TopicNotExist)
    assertEquals(reset(client, "group" -> "none").code, ResponseCode.SubscriptionGroupNotExist)
    assertEquals(reset(client, "queueId" -> "0", "offset" -> "6").code, ResponseCode.SystemError)
    assertEquals(reset(client, "queueId" -> "2").code, ResponseCode.InvalidParameter)
    assertEquals(committed(client), Some("4"))
  }

  broker.test("a reset ends the lease: its owner is refused until it locks again") { b =>
    val client = ready(b)
    client.lock("c1", "g", "t", 0)
    assertEquals(commit(client, 5, "leaseEpoch" -> "1").code, 0)
    reset(client, "queueId" -> "0", "offset" -> "2")
    assertEquals(commit(client, 5, "leaseEpoch" -> "1").code, ResponseCode.StaleLeaseEpoch)
    assertEquals(pull(client, 5, "leaseEpoch" -> "1").code, ResponseCode.StaleLeaseEpoch)
    assertEquals(json(client.lock("c1", "g", "t", 0)).at("/leases/0/epoch").asLong(), 2L)
    assertEquals(committed(client), Some("2"))
    assertEquals(bodies(pull(client, 2, "leaseEpoch" -> "2")).head, "m2")
    assertEquals(commit(client, 3, "leaseEpoch" -> "2").code, 0)
    assertEquals(committed(client), Some("3"))
    val history = json(client.call(RequestCode.GetQueueLeases)).get("history")
    assertEquals(
      (0 until history.size()).map(history.get(_).get("reason").asText()),
      Seq("granted", "reset", "granted")
    )
  }

  broker.test("a fenced pull elsewhere than at the reset offset is told that the offset moved") {
    b =>
      val client = ready(b)
      reset(client, "queueId" -> "0", "offset" -> "2")
      client.lock("c1", "g", "t", 0)
      assertEquals(pull(client, 5, "leaseEpoch" -> "1").code, ResponseCode.PullOffsetMoved)
      assertEquals(pull(client, 5, "leaseEpoch" -> "1").code, ResponseCode.PullNotFound)
  }

  broker.test("a long poll of the group hears of the reset at once, those of others go on") { b =>
    val client = ready(b)
    val other = b.connect()
    client.request(RequestCode.PullMessage, pullFields("t", 0, 5, "sysFlag" -> "6"))
    other.request(
      RequestCode.PullMessage,
      pullFields("t", 0, 5, "sysFlag" -> "6", "consumerGroup" -> "h")
    )
    val admin = b.connect()
    reset(admin, "queueId" -> "0", "offset" -> "3")
    assertEquals(client.receive().ext("nextBeginOffset"), Some("3"))
    assert(!other.hasAnswer)
  }
}

class ResetInClientsSuite extends BrokerSuite {
  override def settings: Map[String, String] = Map("useServerSideResetOffset" -> "false")

  broker.test("in the older way the group's live consumers are told to reset") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    client.heartbeat("c1", "g", "t")
    client.receive()
    client.send("t", 0, "x")
    val at = Seq("consumerGroup" -> "g", "topic" -> "t", "queueId" -> "0")
    client.call(RequestCode.UpdateConsumerOffset, at :+ ("commitOffset" -> "1"): _*)
    val fields = Seq("topic" -> "t", "group" -> "g", "timestamp" -> "0", "isForce" -> "false")
    val admin = b.connect()
    val answer = admin.call(RequestCode.InvokeBrokerToResetOffset, fields: _*)
    val table = """{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:0}}"""
    assertEquals(new String(answer.body.toArray), table)
    val told = client.receive()
    assertEquals((told.code, told.isOneWay), (RequestCode.ResetConsumerClientOffset, true))
    assertEquals((told.ext("topic"), told.ext("group")), (Some("t"), Some("g")))
    assertEquals(new String(told.body.toArray), table)
    client.disconnect()
    assertEquals(
      admin.call(RequestCode.InvokeBrokerToResetOffset, fields: _*).code,
      ResponseCode.ConsumerNotOnline
    )
  }
}
