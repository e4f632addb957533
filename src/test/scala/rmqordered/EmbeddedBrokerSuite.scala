package rmqordered

import java.nio.ByteBuffer
import java.nio.file.Path

import scala.jdk.CollectionConverters._
import scala.util.Random

import rmqordered.config.ConfigError
import rmqordered.handler.TestClient
import rmqordered.protocol.{RequestCode, ResponseCode, SerializeType}
import rmqordered.store.{StoreError, StoreFixture}

/** The whole broker over real sockets. */
class EmbeddedBrokerSuite extends munit.FunSuite {

  private def start(folder: Path, settings: (String, String)*): EmbeddedBroker =
    EmbeddedBroker.start("127.0.0.1:0", folder.toString, settings.toMap.asJava)

  private def withBroker[T](settings: (String, String)*)(body: EmbeddedBroker => T): T = {
    val broker = start(StoreFixture.temporaryFolder(), settings: _*)
    try body(broker)
    finally broker.close()
  }

  test("a message sent over a socket comes back over another, in both header forms") {
    withBroker() { broker =>
      val producer = new SocketClient(broker.nameServer())
      val sent =
        producer.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 1), "hello".getBytes)
      assertEquals(sent.code, 0)
      val consumer = new SocketClient(broker.nameServer())
      Seq[SerializeType](SerializeType.Json, SerializeType.RocketMq).foreach { form =>
        consumer.send(
          RequestCode.PullMessage,
          TestClient.pullFields("t", 1, 0),
          serializeType = form
        )
        assertEquals(TestClient.bodies(consumer.receive()), Seq("hello"))
      }
      Seq(producer, consumer).foreach(_.close())
    }
  }

  test("the port that was picked is told, and is the one in routes") {
    withBroker() { broker =>
      assert(broker.port() > 0)
      assertEquals(broker.nameServer(), s"${broker.host()}:${broker.port()}")
      val client = new SocketClient(broker.nameServer())
      val route =
        TestClient.json(client.call(RequestCode.GetRouteInfoByTopic, Map("topic" -> "TBW102")))
      assertEquals(route.at("/brokerDatas/0/brokerAddrs/0").asText(), broker.nameServer())
      client.close()
    }
  }

  test("the advertised host is a setting, and a wildcard is never advertised") {
    withBroker("brokerIP1" -> "localhost") { broker =>
      assertEquals(broker.host(), "localhost")
    }
    val folder = StoreFixture.temporaryFolder()
    val wildcard =
      EmbeddedBroker.start("0.0.0.0:0", folder.toString, Map.empty[String, String].asJava)
    try {
      assertNotEquals(wildcard.host(), "0.0.0.0")
      new SocketClient(wildcard.nameServer()).close()
    } finally wildcard.close()
  }

  test("a long poll over a socket is answered by a send over another") {
    withBroker() { broker =>
      val producer = new SocketClient(broker.nameServer())
      val consumer = new SocketClient(broker.nameServer())
      producer.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), "first".getBytes)
      consumer.send(RequestCode.PullMessage, TestClient.pullFields("t", 0, 1, "sysFlag" -> "6"))
      producer.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), "second".getBytes)
      assertEquals(TestClient.bodies(consumer.receive()), Seq("second"))
      Seq(producer, consumer).foreach(_.close())
    }
  }

  test("pipelined requests on one connection are all answered") {
    withBroker() { broker =>
      val client = new SocketClient(broker.nameServer())
      val ids = (0 until 200).map { i =>
        client.send(RequestCode.SendMessageV2, TestClient.sendFields("t", i % 4), s"m$i".getBytes)
      }
      val answers = ids.map(_ => client.receive())
      assertEquals(answers.map(_.opaque).toSet, ids.toSet)
      assert(answers.forall(_.code == 0))
      client.close()
    }
  }

  test("garbage costs its sender the connection and nobody else anything") {
    withBroker() { broker =>
      val witness = new SocketClient(broker.nameServer())
      val random = new Random(1)
      val garbage = Seq(
        Array[Byte](-1, -1, -1, -1),
        "GET / HTTP/1.1\r\n\r\n".getBytes,
        ByteBuffer.allocate(8).putInt(16).putInt(17).array(),
        ByteBuffer.allocate(12).putInt(8).putInt(4).putInt(0x7b7b7b7b).array(),
        Array.fill[Byte](4096)((random.nextInt(200) + 32).toByte)
      )
      garbage.foreach { bytes =>
        val vandal = new SocketClient(broker.nameServer())
        vandal.write(bytes)
        assert(vandal.isHungUp)
        vandal.close()
      }
      assertEquals(witness.call(RequestCode.GetBrokerClusterInfo).code, 0)
      witness.close()
    }
  }

  test("a frame cut off by its sender costs nobody else anything") {
    withBroker() { broker =>
      val vandal = new SocketClient(broker.nameServer())
      vandal.write(ByteBuffer.allocate(8).putInt(1 << 20).putInt(100).array())
      vandal.close()
      val witness = new SocketClient(broker.nameServer())
      assertEquals(witness.call(RequestCode.GetBrokerClusterInfo).code, 0)
      witness.close()
    }
  }

  test("connections beyond the limit are closed, and room is made when one leaves") {
    withBroker("maxConnections" -> "1") { broker =>
      val first = new SocketClient(broker.nameServer())
      assertEquals(first.call(RequestCode.GetBrokerClusterInfo).code, 0)
      val second = new SocketClient(broker.nameServer())
      assert(second.isHungUp)
      first.close()
      val deadline = System.nanoTime() + 10000000000L
      def canConnect: Boolean = {
        val client = new SocketClient(broker.nameServer())
        try client.call(RequestCode.GetBrokerClusterInfo).code == 0
        catch { case _: java.io.IOException => false }
        finally client.close()
      }
      while (!canConnect) assert(System.nanoTime() < deadline, "no room was made")
    }
  }

  test("an idle connection is closed") {
    withBroker("serverChannelMaxIdleTimeSeconds" -> "1") { broker =>
      val client = new SocketClient(broker.nameServer())
      assert(client.isHungUp)
    }
  }

  test("a client that does not read is not served beyond its buffer, and loses nothing") {
    withBroker("writeBufferHighWaterMark" -> "65536") { broker =>
      val client = new SocketClient(broker.nameServer())
      val body = new Array[Byte](1 << 20)
      client.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), body)
      val asked = 300
      val ids = (1 to asked).map { _ =>
        client.send(RequestCode.PullMessage, TestClient.pullFields("t", 0, 0))
      }
      // 300 MiB of answers are asked for; others are served all the same while nobody reads them.
      val witness = new SocketClient(broker.nameServer())
      assertEquals(witness.call(RequestCode.GetBrokerClusterInfo).code, 0)
      val answered = (1 to asked).map { _ =>
        val answer = client.receive()
        assert(answer.body.length > body.length)
        answer.opaque
      }
      assertEquals(answered, ids)
      Seq(client, witness).foreach(_.close())
    }
  }

  test("a stop answers waiting polls, and a restart has everything") {
    val folder = StoreFixture.temporaryFolder()
    val first = start(folder)
    val client = new SocketClient(first.nameServer())
    client.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), "kept".getBytes)
    client.send(RequestCode.PullMessage, TestClient.pullFields("t", 0, 1, "sysFlag" -> "6"))
    // The broker has parked it once it answers what was sent behind it.
    client.send(RequestCode.GetBrokerClusterInfo)
    assertEquals(client.receive().code, 0)
    first.close()
    first.close()
    assertEquals(client.receive().code, ResponseCode.PullNotFound)
    assert(client.isHungUp)
    val second = start(folder)
    try {
      val again = new SocketClient(second.nameServer())
      assertEquals(
        TestClient.bodies(again.call(RequestCode.PullMessage, TestClient.pullFields("t", 0, 0))),
        Seq("kept")
      )
      again.close()
    } finally second.close()
  }

  test("a port or data directory in use, and an address that is none, are refused") {
    withBroker() { broker =>
      val taken = intercept[java.io.IOException] {
        EmbeddedBroker.start(
          broker.nameServer(),
          StoreFixture.temporaryFolder().toString,
          Map.empty[String, String].asJava
        )
      }
      assert(taken.getMessage.contains(broker.nameServer()), taken.getMessage)
    }
    val folder = StoreFixture.temporaryFolder()
    val first = start(folder)
    try assert(intercept[StoreError](start(folder)).getMessage.contains("in use"))
    finally first.close()
    Seq("nonsense", ":1", "host:", "host:x").foreach { listen =>
      intercept[ConfigError](
        EmbeddedBroker.start(listen, folder.toString, Map.empty[String, String].asJava)
      )
    }
    start(folder).close()
  }
}
