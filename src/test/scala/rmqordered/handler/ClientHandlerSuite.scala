package rmqordered.handler

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.Json

/** Heartbeats, memberships and the news about them. */
class ClientHandlerSuite extends BrokerSuite {

  private def members(client: TestClient): Seq[String] = {
    val answer = client.call(RequestCode.GetConsumerListByGroup, "consumerGroup" -> "g")
    val ids = json(answer).get("consumerIdList")
    (0 until ids.size()).map(ids.get(_).asText())
  }

  private def isNews(command: RemotingCommand): Boolean =
    command.code == RequestCode.NotifyConsumerIdsChanged && command.isOneWay &&
      command.ext("consumerGroup").contains("g")

  /** Joins and gives the answer, after checking that the news of it came first. */
  private def join(client: TestClient, clientId: String, topics: String*): RemotingCommand = {
    val first = client.heartbeat(clientId, "g", topics: _*)
    assert(isNews(first), s"$first")
    client.receive()
  }

  broker.test("a heartbeat makes the group, its retry topic and that topic's route") { b =>
    val client = b.connect()
    val answer = join(client, "c1", "t")
    assertEquals(answer.code, 0)
    assertEquals(answer.ext("IS_SUPPORT_HEART_BEAT_V2"), Some("true"))
    assertEquals(client.call(RequestCode.GetRouteInfoByTopic, "topic" -> "%RETRY%g").code, 0)
    assertEquals(members(client), Seq("c1"))
  }

  broker.test(
    "every member hears of a newcomer, of a leaver, of new topics and of a lost connection"
  ) { b =>
    val (one, two) = (b.connect(), b.connect())
    join(one, "c1", "t")
    join(two, "c2", "t")
    assert(isNews(one.receive()))
    join(two, "c2", "t", "u")
    assert(isNews(one.receive()))
    two.call(RequestCode.UnregisterClient, "clientID" -> "c2", "consumerGroup" -> "g")
    assert(isNews(one.receive()))
    join(two, "c2", "t")
    assert(isNews(one.receive()))
    two.disconnect()
    assert(isNews(one.receive()))
    assertEquals(members(one), Seq("c1"))
  }

  broker.test("a second heartbeat is no news") { b =>
    val client = b.connect()
    join(client, "c1", "t")
    assertEquals(client.heartbeat("c1", "g", "t").code, 0)
    assert(!client.hasAnswer)
  }

  broker.test("a heartbeat without subscriptions keeps those of before") { b =>
    val client = b.connect()
    join(client, "c1", "t")
    val short = heartbeat("c1", "g", Nil).put("withoutSub", true).put("heartbeatFingerprint", 5)
    assertEquals(client.callJson(RequestCode.HeartBeat, short).code, 0)
    val groups =
      json(client.call(RequestCode.QueryTopicConsumeByWho, "topic" -> "t")).get("groupList")
    assertEquals(groups.toString, """["g"]""")
  }

  broker.test("broadcasting members do not hear of each other") { b =>
    val client = b.connect()
    val body = heartbeat("c1", "g", Seq("t"))
    body.get(
      "consumerDataSet"
    ).get(0).asInstanceOf[com.fasterxml.jackson.databind.node.ObjectNode].put(
      "messageModel",
      "BROADCASTING"
    )
    assertEquals(client.callJson(RequestCode.HeartBeat, body).code, 0)
    assert(!client.hasAnswer)
  }

  broker.test("a group that must not broadcast is told so when it pulls") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val config = Json.obj().put("groupName", "g").put("consumeBroadcastEnable", false)
    client.callJson(RequestCode.UpdateAndCreateSubscriptionGroup, config)
    val body = TestClient.heartbeat("c1", "g", Seq("t"))
    body.get("consumerDataSet").get(0).asInstanceOf[ObjectNode].put("messageModel", "BROADCASTING")
    client.callJson(RequestCode.HeartBeat, body)
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "sysFlag" -> "0"))
    assertEquals(client.receive().code, ResponseCode.NoPermission)
  }

  broker.test("an illegal group in a heartbeat is passed over, a missing client id is not") { b =>
    val client = b.connect()
    assertEquals(client.heartbeat("c1", "a/b", "t").code, 0)
    assertEquals(client.heartbeat("", "g", "t").code, ResponseCode.InvalidParameter)
  }

  broker.test("an empty group is answered with code 1") { b =>
    val answer = b.connect().call(RequestCode.GetConsumerListByGroup, "consumerGroup" -> "g")
    assertEquals(answer.code, ResponseCode.SystemError)
  }

  broker.test("a silent client is closed after its time") { b =>
    val client = b.connect()
    join(client, "c1", "t")
    b.clock.advance(120000)
    b.tick()
    assert(!client.isClosed)
    b.clock.advance(1)
    b.tick()
    assert(client.isClosed)
  }

  broker.test("connections of consumers and producers are listed") { b =>
    val client = b.connect()
    join(client, "c1", "t")
    val consumers = json(client.call(RequestCode.GetConsumerConnectionList, "consumerGroup" -> "g"))
    assertEquals(
      Json.text(consumers.get("connectionSet")),
      """[{"clientAddr":"10.0.0.1:5555","clientId":"c1","language":"PYTHON","version":479}]"""
    )
    assert(consumers.get("subscriptionTable").has("t"))
    assertEquals(
      client.call(RequestCode.GetConsumerConnectionList, "consumerGroup" -> "h").code,
      ResponseCode.ConsumerNotOnline
    )
    val producers =
      json(client.call(RequestCode.GetProducerConnectionList, "producerGroup" -> "producers"))
    assertEquals(producers.get("connectionSet").size(), 1)
    client.call(RequestCode.UnregisterClient, "clientID" -> "c1", "producerGroup" -> "producers")
    assertEquals(
      client.call(RequestCode.GetProducerConnectionList, "producerGroup" -> "producers").code,
      ResponseCode.SystemError
    )
  }

  broker.test("a subscription is checked before a client starts with it") { b =>
    val client = b.connect()
    def check(expressionType: String, expression: String) = {
      val body = Json.obj().put("clientId", "c1").put("group", "g")
      body
        .putObject("subscriptionData")
        .put("topic", "t")
        .put("expressionType", expressionType)
        .put("subString", expression)
      client.callJson(RequestCode.CheckClientConfig, body)
    }
    assertEquals(check("TAG", "*").code, 0)
    assertEquals(check("SQL92", "a > 5").code, 0)
    val bad = check("SQL92", "a >")
    assertEquals(bad.code, ResponseCode.SubscriptionParseFailed)
    assert(bad.remark.exists(_.startsWith("The SQL92 expression cannot be read: ")))
    assertEquals(check("CLASS", "x").code, ResponseCode.SystemError)
  }

  private def heartbeatV2(fingerprint: Int, withoutSub: Boolean) = {
    val topics = if (withoutSub) Nil else Seq("t")
    TestClient
      .heartbeat("c1", "g", topics)
      .put("heartbeatFingerprint", fingerprint)
      .put("withoutSub", withoutSub)
  }

  broker.test("a version 2 heartbeat may leave its subscriptions out while the broker has them") {
    b =>
      val client = b.connect()
      client.createTopic("t", 1)
      def isSubChange(fingerprint: Int, withoutSub: Boolean): Option[String] = {
        client.request(
          RequestCode.HeartBeat,
          body = Json.bytes(heartbeatV2(fingerprint, withoutSub))
        )
        // News of the membership may come before the answer.
        Iterator.continually(client.receive()).find(_.isResponse).flatMap(_.ext("IS_SUB_CHANGE"))
      }
      assertEquals(isSubChange(7, withoutSub = true), Some("true"))
      assertEquals(isSubChange(7, withoutSub = false), Some("true"))
      assertEquals(isSubChange(7, withoutSub = true), Some("false"))
      val pull = pullFields("t", 0, 0, "sysFlag" -> "0", "subVersion" -> "1")
      client.request(RequestCode.PullMessage, pull)
      assertEquals(client.receive().code, ResponseCode.PullNotFound)
      assertEquals(isSubChange(8, withoutSub = true), Some("true"))
      assertEquals(isSubChange(0, withoutSub = false), Some("true"))
  }

  broker.test("members of a broadcasting group are not told of each other") { b =>
    val client = b.connect()
    val body = TestClient.heartbeat("c1", "g", Seq("t"))
    body.get("consumerDataSet").get(0).asInstanceOf[ObjectNode].put("messageModel", "BROADCASTING")
    assertEquals(client.callJson(RequestCode.HeartBeat, body).code, 0)
    assert(!client.hasAnswer)
  }

  broker.test("a heartbeat that names too many groups is refused and makes none".proves(
    "names-per-request"
  )) { b =>
    val client = b.connect()
    val body = Json.obj().put("clientID", "c1")
    val consumers = body.putArray("consumerDataSet")
    val producers = body.putArray("producerDataSet")
    (0 until 2000).foreach(i => consumers.addObject().put("groupName", s"g$i"))
    (0 until 2097).foreach(i => producers.addObject().put("groupName", s"p$i"))
    val answer = client.callJson(RequestCode.HeartBeat, body)
    assertEquals(answer.code, ResponseCode.InvalidParameter)
    assert(answer.remark.exists(_.contains("names 4097 groups, at most 4096")), s"${answer.remark}")
    val groups = json(client.call(RequestCode.GetAllSubscriptionGroupConfig))
    assertEquals(groups.get("subscriptionGroupTable").size(), 0)
  }
}
