package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{Body, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.Json

/** An administrator's questions carried to a consumer (307, 309), and groups in bulk (225, 352). */
class RelayHandlerSuite extends BrokerSuite {
  private val about = Seq("consumerGroup" -> "g", "clientId" -> "c1")

  private def consumer(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 1)
    client.heartbeat("c1", "g", "t")
    client.receive()
    client
  }

  broker.test("a consumer's running information is fetched from it") { b =>
    val client = consumer(b)
    val admin = b.connect()
    admin.request(RequestCode.GetConsumerRunningInfo, (about :+ ("jstackEnable" -> "true")).toMap)
    val asked = client.receive()
    assertEquals((asked.code, asked.isOneWay), (RequestCode.GetConsumerRunningInfo, false))
    assertEquals(asked.ext("jstackEnable"), Some("true"))
    assert(!admin.hasAnswer)
    b.core.received(RemotingCommand.response(asked.opaque, 0, body = Body("info".getBytes)), client)
    assertEquals(new String(admin.receive().body.toArray), "info")
  }

  broker.test("a message is consumed directly by the consumer asked for") { b =>
    val client = consumer(b)
    val id = client.send("t", 0, "x").ext("msgId").get
    val admin = b.connect()
    admin.request(RequestCode.ConsumeMessageDirectly, (about :+ ("msgId" -> id)).toMap)
    val asked = client.receive()
    assertEquals(bodies(asked), Seq("x"))
    assertEquals(asked.ext("brokerName"), Some("broker-a"))
    b.core.received(RemotingCommand.response(asked.opaque, 0, Some("done")), client)
    assertEquals(admin.receive().remark, Some("done"))
    Seq(
      "nonsense",
      "7F0000010000269400000000000000FF",
      "7F00000100002694ZZZZZZZZZZZZZZZZ"
    ).foreach { wrong =>
      val fields = about :+ ("msgId" -> wrong)
      assertEquals(
        admin.call(RequestCode.ConsumeMessageDirectly, fields: _*).code,
        ResponseCode.SystemError
      )
    }
  }

  broker.test("a consumer that does not answer, or goes, or was never there, is reported") { b =>
    val client = consumer(b)
    val admin = b.connect()
    admin.request(RequestCode.GetConsumerRunningInfo, about.toMap)
    b.clock.advance(9999)
    b.tick()
    assert(!admin.hasAnswer)
    b.clock.advance(1)
    b.tick()
    assertEquals(admin.receive().code, ResponseCode.ConsumeMsgTimeout)
    admin.request(RequestCode.GetConsumerRunningInfo, about.toMap)
    client.disconnect()
    assertEquals(admin.receive().code, ResponseCode.SystemError)
    assertEquals(
      admin.call(RequestCode.GetConsumerRunningInfo, about: _*).code,
      ResponseCode.SystemError
    )
  }

  broker.test("what a group consumes, and how it subscribes, can be asked for") { b =>
    val client = consumer(b)
    val commit =
      Seq("consumerGroup" -> "g", "topic" -> "t", "queueId" -> "0", "commitOffset" -> "0")
    client.call(RequestCode.UpdateConsumerOffset, commit: _*)
    val topics = json(client.call(RequestCode.QueryTopicsByConsumer, "group" -> "g"))
    assertEquals(topics.get("topicList").toString, """["t"]""")
    def subscription(topic: String) =
      json(
        client.call(RequestCode.QuerySubscriptionByConsumer, "group" -> "g", "topic" -> topic)
      ).at("/subscriptionData/subString")
    assertEquals(subscription("t").asText(), "*")
    assert(subscription("u").isMissingNode)
  }

  broker.test("groups can be made many at once and described one by one") { b =>
    val client = b.connect()
    def groups(names: String*) = {
      val body = Json.obj()
      val list = body.putArray("groupConfigList")
      names.foreach(name => list.addObject().put("groupName", name).put("retryMaxTimes", 3))
      client.callJson(RequestCode.UpdateAndCreateSubscriptionGroupList, body).code
    }
    def get(name: String) = client.call(RequestCode.GetSubscriptionGroupConfig, "group" -> name)
    assertEquals(groups("g1", "g/2"), ResponseCode.InvalidParameter)
    assertEquals(get("g1").code, ResponseCode.SubscriptionGroupNotExist)
    assertEquals(groups("g1", "g2"), 0)
    assertEquals(json(get("g2")).get("retryMaxTimes").asInt(), 3)
  }
}
