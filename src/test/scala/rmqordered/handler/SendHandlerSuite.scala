package rmqordered.handler

import java.nio.ByteBuffer

import rmqordered.handler.TestClient._
import rmqordered.protocol.{MessageProperties, RemotingCommand, RequestCode, ResponseCode}

class SendHandlerSuite extends BrokerSuite {

  private def record(body: String, properties: String = ""): Array[Byte] = {
    val size = 22 + body.length + properties.length
    val out = ByteBuffer.allocate(size)
    out.putInt(size).putInt(0).putInt(0).putInt(0).putInt(body.length).put(body.getBytes)
    out.putShort(properties.length.toShort).put(properties.getBytes).array()
  }

  private def pull(client: TestClient, topic: String, queueId: Int): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields(topic, queueId, 0))
    client.receive()
  }

  private def propertiesOf(client: TestClient, topic: String, queueId: Int): Map[String, String] = {
    val record = records(pull(client, topic, queueId)).head
    MessageProperties.decode(new String(record.content.properties.toArray, "UTF-8"))
  }

  broker.test("a send is answered with everything Java's client reads") { b =>
    val client = b.connect()
    client.createTopic("t", 2)
    val answer = client.send("t", 1, "hello", "UNIQ_KEY\u0001U1\u0002")
    assertEquals(answer.code, 0)
    assertEquals(answer.ext("queueId"), Some("1"))
    assertEquals(answer.ext("queueOffset"), Some("0"))
    assertEquals(answer.ext("msgId"), Some("7F000001000026940000000000000000"))
    assertEquals(answer.ext("transactionId"), Some("U1"))
    assertEquals(answer.ext("MSG_REGION"), Some("DefaultRegion"))
    assertEquals(answer.ext("TRACE_ON"), Some("true"))
  }

  broker.test("the broker adds its properties, keeps the client's and drops POP_CK") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    client.send("t", 0, "x", "KEYS\u0001k\u0002POP_CK\u0001c\u0002CLUSTER\u0001forged\u0002")
    val properties = propertiesOf(client, "t", 0)
    assertEquals(
      properties - "UNIQ_KEY",
      Map(
        "KEYS" -> "k",
        "CLUSTER" -> "DefaultCluster",
        "MSG_REGION" -> "DefaultRegion",
        "TRACE_ON" -> "true"
      )
    )
    assertEquals(properties("UNIQ_KEY").length, 32)
  }

  broker.test("the long header is understood as the short one is") { b =>
    val client = b.connect()
    val fields = Map(
      "producerGroup" -> "pg",
      "topic" -> "t",
      "defaultTopic" -> "TBW102",
      "defaultTopicQueueNums" -> "4",
      "queueId" -> "3",
      "sysFlag" -> "0",
      "bornTimestamp" -> "5",
      "flag" -> "9"
    )
    client.request(RequestCode.SendMessage, fields, "x".getBytes)
    assertEquals(client.receive().code, 0)
    val stored = records(pull(client, "t", 3)).head
    assertEquals((stored.content.flag, stored.envelope.bornTimestamp), (9, 5L))
  }

  broker.test("a topic is created from the template with as many queues as the client wants") { b =>
    val client = b.connect()
    client.send("t", 0, "x")
    val topic = json(client.call(RequestCode.GetTopicConfig, "topic" -> "t"))
    assertEquals((topic.get("readQueueNums").asInt(), topic.get("perm").asInt()), (4, 6))
    client.request(RequestCode.SendMessageV2, sendFields("u", 0) + ("d" -> "99"), "x".getBytes)
    client.receive()
    val capped = json(client.call(RequestCode.GetTopicConfig, "topic" -> "u"))
    assertEquals(capped.get("writeQueueNums").asInt(), 8)
  }

  broker.test("names that are illegal or reserved are refused before anything is written") { b =>
    val client = b.connect()
    Seq("../evil", "a/b", "..", "t" * 128).foreach { name =>
      assertEquals(client.send(name, 0, "x").code, ResponseCode.InvalidParameter, name)
    }
    assertEquals(client.send("SCHEDULE_TOPIC_XXXX", 0, "x").code, ResponseCode.NoPermission)
  }

  broker.test("a queue outside the topic is refused, a negative one is chosen by the broker") { b =>
    val client = b.connect()
    client.createTopic("t", 2)
    assertEquals(client.send("t", 2, "x").code, ResponseCode.InvalidParameter)
    val answer = client.send("t", -1, "x")
    assert(Set("0", "1").contains(answer.ext("queueId").get))
  }

  broker.test("bodies and properties that are too large or missing are refused") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    assertEquals(client.send("t", 0, "").code, ResponseCode.MessageIllegal)
    client.request(RequestCode.SendMessageV2, sendFields("t", 0), new Array[Byte](4194305))
    assertEquals(client.receive().code, ResponseCode.MessageIllegal)
    assertEquals(
      client.send("t", 0, "x", "k\u0001" + "v" * 32760 + "\u0002").code,
      ResponseCode.MessageIllegal
    )
    client.request(RequestCode.SendMessageV2, sendFields("t", 0), new Array[Byte](4194304))
    assertEquals(client.receive().code, 0)
  }

  broker.test("whoever wants a brief receipt of a batch hears of its first id only") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val batch = record("b1", "") ++ record("b2", "")
    val ids = Seq("false", "true").map { brief =>
      val fields = sendFields("t", 0) ++ Seq("briefReceipt" -> brief)
      client.request(RequestCode.SendBatchMessage, fields, batch)
      client.receive().ext("msgId").get.split(',').length
    }
    assertEquals(ids, Seq(2, 1))
    assertEquals(records(pull(client, "t", 0)).length, 4)
  }

  broker.test("a batch lands in consecutive offsets, with its own properties only") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    client.send("t", 0, "first")
    val batch = record("b1", "UNIQ_KEY\u0001A\u0002") ++ record("b2", "TAGS\u0001T\u0002")
    client.request(RequestCode.SendBatchMessage, sendFields("t", 0, "WAIT\u0001true\u0002"), batch)
    val answer = client.receive()
    assertEquals((answer.code, answer.ext("queueOffset")), (0, Some("1")))
    assertEquals(answer.ext("msgId").get.split(',').length, 2)
    val stored = records(pull(client, "t", 0)).drop(1)
    assertEquals(stored.map(_.position.queueOffset), Seq(1L, 2L))
    assertEquals(
      stored.map(r => new String(r.content.properties.toArray)),
      Seq("UNIQ_KEY\u0001A\u0002", "TAGS\u0001T\u0002")
    )
  }

  broker.test("a batch that lies about a length is refused whole") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val broken = record("good") ++ record("bad").dropRight(1)
    client.request(RequestCode.SendBatchMessage, sendFields("t", 0), broken)
    assertEquals(client.receive().code, ResponseCode.InvalidParameter)
    assertEquals(pull(client, "t", 0).code, ResponseCode.PullNotFound)
  }

  broker.test("transactions are refused, not silently ignored") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val answer = client.send("t", 0, "x", "TRAN_MSG\u0001true\u0002")
    assertEquals(answer.code, ResponseCode.NoPermission)
    assert(answer.remark.exists(_.contains("not supported")))
  }

  broker.test("reports of a message trace are taken without being created first") { b =>
    assertEquals(b.connect().send("RMQ_SYS_TRACE_TOPIC", 0, "trace").code, 0)
  }

  broker.test("a message given back by an orderly group goes to its dead letters") { b =>
    val client = b.connect()
    client.heartbeat("c1", "g", "t")
    client.receive()
    client.lock("c1", "g", "t", 0)
    assertEquals(client.send("%RETRY%g", 0, "poison", "DELAY\u00013\u0002").code, 0)
    assertEquals(bodies(pull(client, "%DLQ%g", 0)), Seq("poison"))
    assertEquals(propertiesOf(client, "%DLQ%g", 0).get("DELAY"), Some("-1"))
  }

  broker.test("without a lock it goes to the retry topic until it was tried too often") { b =>
    val client = b.connect()
    assertEquals(client.send("%RETRY%g", 0, "again").code, 0)
    assertEquals(bodies(pull(client, "%RETRY%g", 0)), Seq("again"))
    client.request(
      RequestCode.SendMessageV2,
      sendFields("%RETRY%g", 0) ++ Map("j" -> "3", "l" -> "2"),
      "over".getBytes
    )
    assertEquals(client.receive().code, 0)
    assertEquals(bodies(pull(client, "%DLQ%g", 0)), Seq("over"))
  }
}

class SendWithoutAutoCreationSuite extends BrokerSuite {
  override def settings: Map[String, String] = Map("autoCreateTopicEnable" -> "false")

  broker.test("without auto-creation an unknown topic is refused and the template has no route") {
    b =>
      val client = b.connect()
      val answer = client.send("t", 0, "x")
      assertEquals(answer.code, ResponseCode.TopicNotExist)
      assertEquals(answer.remark, Some("topic[t] not exist, apply first please!"))
      assertEquals(
        client.call(RequestCode.GetRouteInfoByTopic, "topic" -> "TBW102").code,
        ResponseCode.TopicNotExist
      )
  }
}
