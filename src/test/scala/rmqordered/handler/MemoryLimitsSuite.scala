package rmqordered.handler

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.Proves._
import rmqordered.config.LimitSettings
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.Json

/** Whatever one client makes the broker remember, it stays within bounds and the others go on. */
class MemoryLimitsSuite extends BrokerSuite {
  private val limits = LimitSettings.default

  private def remembered(client: TestClient, table: String): Long = {
    val info = json(client.call(RequestCode.GetBrokerRuntimeInfo)).get("table")
    val (bytes, most) =
      (info.get(s"remembered.$table.bytes"), info.get(s"remembered.$table.maxBytes"))
    assert(bytes.asLong() <= most.asLong(), s"$table: $bytes of $most")
    bytes.asLong()
  }

  private def heartbeat(client: TestClient, body: ObjectNode): RemotingCommand = {
    client.request(RequestCode.HeartBeat, body = Json.bytes(body))
    Iterator.continually(client.receive()).find(_.isResponse).get
  }

  /** A heartbeat whose one subscription has so many characters. */
  private def subscribing(group: String, chars: Int): ObjectNode = {
    val body = TestClient.heartbeat("c", group, Seq("t"))
    val subscription = body.at("/consumerDataSet/0/subscriptionDataSet/0").asInstanceOf[ObjectNode]
    subscription.put("subString", "x" * chars)
    body
  }

  private def producing(groups: Seq[String]): ObjectNode = {
    val body = Json.obj().put("clientID", "c")
    val producers = body.putArray("producerDataSet")
    groups.foreach(group => producers.addObject().put("groupName", group))
    body
  }

  private def isRefused(answer: RemotingCommand, part: String): Boolean =
    answer.code == ResponseCode.ServiceNotAvailable && answer.remark.exists(_.contains(part))

  broker.test("subscriptions of one connection are bounded".proves("memory-bounded")) { b =>
    val client = b.connect()
    assertEquals(
      heartbeat(client, subscribing("g", limits.subscriptionChars + 1)).code,
      ResponseCode.InvalidParameter
    )
    val answers = (0 until 20).map(i => heartbeat(client, subscribing(s"g$i", 130000)))
    assert(answers.head.code == 0 && isRefused(answers.last, "one connection"), s"$answers")
    val bytes = remembered(client, "members")
    assert(bytes <= limits.consumerBytes / 8 + 1000, s"$bytes")
    assertEquals(
      b.connect().heartbeat("other", "h", "t").code,
      RequestCode.NotifyConsumerIdsChanged
    )
    client.disconnect()
    assert(remembered(b.connect(), "members") < 10000)
  }

  broker.test("producer groups of one connection are bounded".proves("memory-bounded")) { b =>
    val client = b.connect()
    val answers = (0 until 10).map { i =>
      heartbeat(client, producing((0 until 1000).map(k => f"$i%04d$k%04d" + "p" * 300)))
    }
    assert(answers.head.code == 0 && isRefused(answers.last, "one connection"), s"$answers")
    assert(remembered(client, "producers") <= limits.producerBytes / 8)
    assertEquals(heartbeat(b.connect(), producing(Seq("orders"))).code, 0)
    client.disconnect()
    assert(remembered(b.connect(), "producers") < 10000)
  }

  broker.test("names are short and without control characters".proves("memory-bounded")) { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    Seq("x" * 513, "a\u0000b", "a\nb", "a\u009bb").foreach { name =>
      val wrong = Seq(
        client.heartbeat(name, "g", "t"),
        client.lock(name, "g", "t", 0),
        heartbeat(client, producing(Seq(name))),
        client.heartbeat("c", "g", name),
        client.call(RequestCode.PutKvConfig, "namespace" -> name, "key" -> "k", "value" -> "v"),
        client.call(RequestCode.PutKvConfig, "namespace" -> "n", "key" -> name, "value" -> "v")
      )
      assertEquals(wrong.map(_.code).distinct, Seq(ResponseCode.InvalidParameter), s"$wrong")
    }
    // As Apache's clients make them of an address, an instance name, a unit and a suffix.
    val long = "192.168.200.100@" + "instance-name." * 32 + "@unit@STREAM"
    assertEquals(client.heartbeat(long, "g", "t").code, RequestCode.NotifyConsumerIdsChanged)
    assertEquals(client.receive().code, 0)
    assertEquals(client.lock(long, "g", "t", 0).code, 0)
  }

  broker.test("offsets are of queues that the topic has".proves("memory-bounded")) { b =>
    val client = b.connect()
    client.createTopic("t", 2)
    client.heartbeat("c", "g", "t")
    client.receive()
    val before = remembered(client, "offsets")
    def commit(queueId: Int): Int =
      client.call(
        RequestCode.UpdateConsumerOffset,
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> queueId.toString,
        "commitOffset" -> "1"
      ).code
    Seq(-1, 2, 1000000).foreach(id => assertEquals(commit(id), ResponseCode.InvalidParameter))
    val pull = pullFields("t", 2, 0, "sysFlag" -> "5", "commitOffset" -> "1")
    assertEquals(client.call(RequestCode.PullMessage, pull.toSeq: _*).code, 29)
    assertEquals(remembered(client, "offsets"), before)
    assertEquals((commit(0), commit(1), commit(1)), (0, 0, 0))
    assertEquals(remembered(client, "offsets") - before, 2 * 128L)
    client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
    assertEquals(remembered(client, "offsets"), before)
  }

  broker.test("key-value pairs are bounded".proves("memory-bounded")) { b =>
    val client = b.connect()
    def put(key: String, chars: Int): RemotingCommand =
      client.call(
        RequestCode.PutKvConfig,
        "namespace" -> "n",
        "key" -> key,
        "value" -> "v" * chars
      )
    assertEquals(put("k", limits.kvValueChars + 1).code, ResponseCode.InvalidParameter)
    val answers = (0 until 20).map(i => put(s"k$i", limits.kvValueChars))
    assert(answers.head.code == 0 && isRefused(answers.last, "all clients together"), s"$answers")
    val full = remembered(client, "pairs")
    assertEquals(put("k0", limits.kvValueChars).code, 0, "what is there can be written again")
    client.call(RequestCode.DeleteKvConfig, "namespace" -> "n", "key" -> "k1")
    assert(remembered(client, "pairs") < full)
    assertEquals(put("k1", limits.kvValueChars).code, 0)
  }

  broker.test("a topic's attributes are bounded".proves("memory-bounded")) { b =>
    val client = b.connect()
    def create(attributes: String): Int =
      client.call(
        RequestCode.UpdateAndCreateTopic,
        "topic" -> "t",
        "readQueueNums" -> "1",
        "writeQueueNums" -> "1",
        "perm" -> "6",
        "attributes" -> attributes
      ).code
    assertEquals(create("+a=" + "x" * limits.topicAttributes), ResponseCode.InvalidParameter)
    assertEquals(create("+a=" + "x" * 4000), 0)
    assertEquals(create("+b=" + "x" * 4000), ResponseCode.InvalidParameter, "in all")
    assertEquals(create("-a"), 0)
  }

  broker.test("the runtime information says what the process takes".proves("memory-bounded")) { b =>
    val info = json(b.connect().call(RequestCode.GetBrokerRuntimeInfo)).get("table")
    Seq("heapUsed", "directMemoryUsed").foreach(name => assert(info.get(name).asLong() >= 0, name))
    Seq("members", "producers", "groups", "topics", "pairs", "offsets", "leases").foreach { name =>
      assert(info.get(s"remembered.$name.maxBytes").asLong() > 0, name)
    }
  }
}
