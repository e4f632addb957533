package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{RequestCode, ResponseCode}
import rmqordered.util.Json

/** Routes, key-value pairs, topics, groups and what mqadmin prints. */
class AdministrationSuite extends BrokerSuite {

  broker.test("a route is strict JSON with the broker's address and features") { b =>
    val client = b.connect()
    client.createTopic("t", 3)
    val answer = client.call(RequestCode.GetRouteInfoByTopic, "topic" -> "t")
    assertEquals(
      Json.text(json(answer)),
      """{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:9876"},"brokerName":"broker-a","cluster":"DefaultCluster",""" +
        """"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,""" +
        """"readQueueNums":3,"topicSysFlag":0,"writeQueueNums":3}],"rmqOrderedFeatures":["leaseEpoch","widePull","idempotentSend","stampedRequest","fencedWrite"]}"""
    )
  }

  broker.test("an unknown topic has no route, the template has one") { b =>
    val client = b.connect()
    assertEquals(
      client.call(RequestCode.GetRouteInfoByTopic, "topic" -> "t").code,
      ResponseCode.TopicNotExist
    )
    val template = json(client.call(RequestCode.GetRouteInfoByTopic, "topic" -> "TBW102"))
    assertEquals(template.at("/queueDatas/0/perm").asInt(), 7)
  }

  broker.test("the cluster and its topics are listed") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val cluster = json(client.call(RequestCode.GetBrokerClusterInfo))
    assertEquals(cluster.at("/clusterAddrTable/DefaultCluster/0").asText(), "broker-a")
    val all = json(client.call(RequestCode.GetAllTopicListFromNameServer)).get("topicList").toString
    assertEquals(
      all,
      """["DefaultCluster","RMQ_SYS_TRACE_TOPIC","SCHEDULE_TOPIC_XXXX","TBW102","broker-a","rmq_sys_pop_log","rmq_sys_wheel_timer","t"]"""
    )
    val ofCluster = json(client.call(RequestCode.GetTopicsByCluster, "cluster" -> "DefaultCluster"))
    assertEquals(ofCluster.get("topicList").size(), 8)
    assertEquals(
      json(client.call(RequestCode.GetTopicsByCluster, "cluster" -> "x")).get("topicList").size(),
      0
    )
  }

  broker.test("key-value pairs can be put, read, listed and deleted") { b =>
    val client = b.connect()
    val pair = Seq("namespace" -> "n", "key" -> "k")
    assertEquals(client.call(RequestCode.GetKvConfig, pair: _*).code, ResponseCode.QueryNotFound)
    assertEquals(client.call(RequestCode.PutKvConfig, pair :+ ("value" -> "v"): _*).code, 0)
    assertEquals(client.call(RequestCode.GetKvConfig, pair: _*).ext("value"), Some("v"))
    val list = client.call(RequestCode.GetKvListByNamespace, "namespace" -> "n")
    assertEquals(Json.text(json(list)), """{"table":{"k":"v"}}""")
    assertEquals(client.call(RequestCode.DeleteKvConfig, pair: _*).code, 0)
    assertEquals(
      client.call(RequestCode.GetKvListByNamespace, "namespace" -> "n").code,
      ResponseCode.QueryNotFound
    )
  }

  broker.test("a route tells the queues that were declared for an ordered topic") { b =>
    val client = b.connect()
    client.createTopic("t", 3)
    val order = Seq("namespace" -> "ORDER_TOPIC_CONFIG", "key" -> "t")
    client.call(RequestCode.PutKvConfig, order :+ ("value" -> "broker-a:3"): _*)
    def declared = json(client.call(RequestCode.GetRouteInfoByTopic, "topic" -> "t"))
      .path("orderTopicConf")
    assertEquals(declared.asText(), "broker-a:3")
    client.call(RequestCode.DeleteKvConfig, order: _*)
    assert(declared.isMissingNode)
  }

  broker.test("a topic can be made, changed, described and deleted") { b =>
    val client = b.connect()
    val fields = Seq(
      "topic" -> "t",
      "readQueueNums" -> "4",
      "writeQueueNums" -> "2",
      "perm" -> "6",
      "topicFilterType" -> "MULTI_TAG",
      "order" -> "true",
      "attributes" -> "+message.type=FIFO,+x=1"
    )
    assertEquals(client.call(RequestCode.UpdateAndCreateTopic, fields: _*).code, 0)
    client.call(RequestCode.UpdateAndCreateTopic, fields :+ ("attributes" -> "-x"): _*)
    assertEquals(
      Json.text(json(client.call(RequestCode.GetTopicConfig, "topic" -> "t"))),
      """{"attributes":{"message.type":"FIFO"},"order":true,"perm":6,"readQueueNums":4,""" +
        """"topicFilterType":"MULTI_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":2}"""
    )
    val all = json(client.call(RequestCode.GetAllTopicConfig)).get("topicConfigTable")
    assert(all.has("t") && all.has("TBW102"))
    assertEquals(client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t").code, 0)
    assertEquals(client.call(RequestCode.DeleteTopicInNameServer, "topic" -> "t").code, 0)
    assertEquals(
      client.call(RequestCode.GetTopicConfig, "topic" -> "t").code,
      ResponseCode.TopicNotExist
    )
  }

  broker.test("a topic that is illegal, reserved or too large is refused") { b =>
    val client = b.connect()
    def create(name: String, queues: String, perm: String = "6", attributes: String = "") =
      client
        .call(
          RequestCode.UpdateAndCreateTopic,
          "topic" -> name,
          "readQueueNums" -> queues,
          "writeQueueNums" -> queues,
          "perm" -> perm,
          "attributes" -> attributes
        )
        .code
    assertEquals(create("../t", "1"), ResponseCode.InvalidParameter)
    assertEquals(create("TBW102", "1"), ResponseCode.InvalidParameter)
    assertEquals(create("broker-a", "1"), ResponseCode.InvalidParameter)
    assertEquals(create("t", "2147483647"), ResponseCode.InvalidParameter)
    assertEquals(create("t", "-1"), ResponseCode.InvalidParameter)
    assertEquals(create("t", "1", perm = "8"), ResponseCode.InvalidParameter)
    assertEquals(create("t", "1", attributes = "nonsense"), ResponseCode.InvalidParameter)
    assertEquals(
      client.call(RequestCode.DeleteTopicInBroker, "topic" -> "TBW102").code,
      ResponseCode.InvalidParameter
    )
    assertEquals(
      client.call(RequestCode.DeleteTopicInBroker, "topic" -> "../..").code,
      ResponseCode.InvalidParameter
    )
  }

  broker.test("topic statistics have the bare object keys that Java writes and reads") { b =>
    val client = b.connect()
    client.createTopic("t", 2)
    client.send("t", 0, "x")
    val answer = client.call(RequestCode.GetTopicStatsInfo, "topic" -> "t")
    val time = b.clock.wallMillis()
    assertEquals(
      new String(answer.body.toArray),
      """{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:""" +
        s"""{"lastUpdateTimestamp":$time,"maxOffset":1,"minOffset":0},""" +
        """{"brokerName":"broker-a","queueId":1,"topic":"t"}:""" +
        """{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.0}"""
    )
    assertEquals(
      client.call(RequestCode.GetTopicStatsInfo, "topic" -> "u").code,
      ResponseCode.TopicNotExist
    )
  }

  broker.test("a group can be made, listed and deleted, with its offsets if asked") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val body = Json.obj().put("groupName", "g").put("retryMaxTimes", 3)
    assertEquals(client.callJson(RequestCode.UpdateAndCreateSubscriptionGroup, body).code, 0)
    val bad = Json.obj().put("groupName", "a/b")
    assertEquals(
      client.callJson(RequestCode.UpdateAndCreateSubscriptionGroup, bad).code,
      ResponseCode.InvalidParameter
    )
    val all = json(client.call(RequestCode.GetAllSubscriptionGroupConfig))
    assertEquals(all.at("/subscriptionGroupTable/g/retryMaxTimes").asInt(), 3)
    client.call(
      RequestCode.UpdateConsumerOffset,
      "consumerGroup" -> "g",
      "topic" -> "t",
      "queueId" -> "0",
      "commitOffset" -> "1"
    )
    client.call(RequestCode.DeleteSubscriptionGroup, "groupName" -> "g", "cleanOffset" -> "true")
    val groups =
      json(client.call(RequestCode.QueryTopicConsumeByWho, "topic" -> "t")).get("groupList")
    assertEquals(groups.size(), 0)
  }

  broker.test("a group's progress is told per queue, of subscribed topics only") { b =>
    val client = b.connect()
    Seq("t", "u").foreach(client.createTopic(_, 1))
    client.heartbeat("c1", "g", "t")
    client.receive()
    client.send("t", 0, "x")
    Seq("t", "u").foreach { topic =>
      client.call(
        RequestCode.UpdateConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> topic,
        "queueId" -> "0",
        "commitOffset" -> "1"
      )
    }
    val stats = queueTable(client.call(RequestCode.GetConsumeStats, "consumerGroup" -> "g"))
    assertEquals(stats.size(), 1)
    val queue = stats.get("""{"brokerName":"broker-a","queueId":0,"topic":"t"}""")
    assertEquals(
      (queue.get("brokerOffset").asLong(), queue.get("consumerOffset").asLong()),
      (1L, 1L)
    )
    val listed = queueTable(
      client.call(RequestCode.GetConsumeStats, "consumerGroup" -> "g", "topicList" -> "t;u;none")
    )
    assertEquals(listed.size(), 2)
  }

  broker.test("the runtime information has what mqadmin splits and prints") { b =>
    val table = json(b.connect().call(RequestCode.GetBrokerRuntimeInfo)).get("table")
    assertEquals(table.get("brokerActive").asText(), "true")
    assertEquals(table.get("putTps").asText().split(' ').length, 3)
  }

  broker.test("what came in and went out is told in rates, totals and ends of the log") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    b.tick()
    (1 to 20).foreach(i => client.send("t", 0, s"$i"))
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
    assertEquals(bodies(client.receive()).length, 20)
    b.clock.advance(10000)
    b.tick()
    val table = json(client.call(RequestCode.GetBrokerRuntimeInfo)).get("table")
    def value(name: String): String = table.get(name).asText()
    assertEquals(value("putTps"), "2.0 2.0 2.0")
    assertEquals(value("getFoundTps"), "0.1 0.1 0.1")
    assertEquals(value("getTransferredTps"), "2.0 2.0 2.0")
    assertEquals((value("msgPutTotalTodayNow"), value("msgGetTotalTodayNow")), ("20", "20"))
    assertEquals(
      (value("msgPutTotalTodayMorning"), value("msgPutTotalYesterdayMorning")),
      ("0", "0")
    )
    assertEquals(value("putMessageTimesTotal"), "20")
    assertEquals(value("runtime"), "[ 0 days, 0 hours, 0 minutes, 10 seconds ]")
    assertEquals(value("earliestMessageTimeStamp").toLong, b.clock.wallMillis() - 10000)
    assert(value("commitLogMaxOffset").toLong > value("commitLogMinOffset").toLong)
    val ratio = value("commitLogDiskRatio").toDouble
    assert(ratio > 0 && ratio < 1, s"ratio $ratio")
  }

  broker.test("the rates of a topic and of a group are those of the last minute") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    (1 to 30).foreach(i => client.send("t", 0, s"$i"))
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
    assertEquals(bodies(client.receive()).length, 30)
    b.clock.advance(10000)
    b.tick()
    def tail(code: Int, fields: (String, String)*): String =
      new String(client.call(code, fields: _*).body.toArray).split("},").last
    assert(tail(RequestCode.GetTopicStatsInfo, "topic" -> "t").contains("\"topicPutTps\":3.0"))
    val progress =
      tail(RequestCode.GetConsumeStats, "consumerGroup" -> "g", "topicList" -> "t")
    assert(progress.contains("\"consumeTps\":3.0"), progress)
  }
}
