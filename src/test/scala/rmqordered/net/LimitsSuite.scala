package rmqordered.net

import java.net.{InetAddress, InetSocketAddress, SocketAddress}

import io.netty.channel.embedded.EmbeddedChannel
import io.netty.channel.{ChannelHandlerContext, ChannelOutboundHandlerAdapter}

import rmqordered.EmbeddedBroker
import rmqordered.config.BrokerConfig
import rmqordered.handler.{Connection, TestClient}
import rmqordered.protocol.{Body, RemotingCommand, RequestCode, ResponseCode}

class LimitsSuite extends munit.FunSuite {
  import SocketFixture._

  private val code = RequestCode.GetBrokerClusterInfo

  private def command(body: Int): RemotingCommand =
    RemotingCommand(10, "JAVA", 479, 1, 0, None, None, Body(new Array[Byte](body)))

  test("connections above the limit are closed, and there is room again when one leaves") {
    withBroker("maxConnections" -> "2") { broker =>
      val first = connect(broker)
      val second = connect(broker)
      assertEquals((first.call(code).code, second.call(code).code), (0, 0))
      assert(connect(broker).isHungUpOn(code))
      first.close()
      val deadline = System.nanoTime() + 10000000000L
      while (connect(broker).isHungUpOn(code))
        assert(System.nanoTime() < deadline, "never room again")
      assertEquals(second.call(code).code, 0)
    }
  }

  test("a silent connection is closed, a speaking one is not") {
    withBroker("serverChannelMaxIdleTimeSeconds" -> "1") { broker =>
      val silent = connect(broker)
      val speaking = connect(broker)
      val deadline = System.nanoTime() + 20000000000L
      var isClosed = false
      val listener = new Thread(() => {
        try { val _ = silent.receive() }
        catch { case _: java.io.IOException => isClosed = true }
      })
      listener.start()
      while (listener.isAlive && System.nanoTime() < deadline)
        assertEquals(speaking.call(code).code, 0)
      assert(isClosed)
    }
  }

  test("long polls above the limit of one connection are told that the broker is busy") {
    withBroker("maxInFlightRequests" -> "3") { broker =>
      val client = connect(broker)
      client.send(
        RequestCode.UpdateAndCreateTopic,
        Map("topic" -> "t", "readQueueNums" -> "1", "writeQueueNums" -> "1", "perm" -> "6")
      )
      assertEquals(client.receive().code, 0)
      (1 to 4).foreach(i =>
        client.send(
          RequestCode.PullMessage,
          TestClient.pullFields("t", 0, 0, "sysFlag" -> "6"),
          opaque = i
        )
      )
      val refused = client.receive()
      assertEquals((refused.opaque, refused.code), (4, ResponseCode.SystemBusy))
      val other = connect(broker)
      other.send(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), "x".getBytes)
      assertEquals(other.receive().code, 0)
      assertEquals(Set.fill(3)(client.receive()).map(_.code), Set(0))
      assertEquals(client.call(code).code, 0)
    }
  }

  test("bytes of unanswered requests are counted until they are answered") {
    val inFlight = new InFlight(10, 10000)
    assert(inFlight.begin(command(6000)) && !inFlight.isFull)
    assert(inFlight.begin(command(6000)) && inFlight.isFull)
    assert(inFlight.end(command(6000)), "this made room")
    assert(!inFlight.isFull && !inFlight.end(command(6000)), "there was room before")
  }

  test("many large sends at once are all served under a small limit") {
    withBroker("maxInFlightBytes" -> "65536") { broker =>
      val client = connect(broker)
      val sender = new Thread(() =>
        (1 to 100).foreach { i =>
          client.send(
            RequestCode.SendMessageV2,
            TestClient.sendFields("t", 0),
            new Array[Byte](50000),
            i
          )
        }
      )
      sender.start()
      val answers = Seq.fill(100)(client.receive())
      sender.join()
      assertEquals(answers.map(_.code).toSet, Set(0))
      assertEquals(answers.map(_.ext("queueOffset").get.toInt), 0 until 100)
    }
  }

  test("whoever does not read is given up before it fills the memory") {
    val nobody = new ConnectionListener {
      override def received(command: RemotingCommand, connection: Connection): Unit = ()
      override def overloaded(command: RemotingCommand, connection: Connection): Unit = ()
      override def disconnected(connection: Connection): Unit = ()
    }
    val connection =
      new ClientConnection(nobody, ConnectionLimits(10, 10000, maxUnsentBytes = 100000))
    val blocked = new ChannelOutboundHandlerAdapter {
      override def flush(context: ChannelHandlerContext): Unit = ()
    }
    val channel = new EmbeddedChannel(blocked, new FrameEncoder, connection) {
      override def remoteAddress0(): SocketAddress = new InetSocketAddress("10.0.0.1", 5)
    }
    (1 to 100).foreach(_ => connection.send(command(1000)))
    assert(channel.isOpen, "below the limit")
    (1 to 100).foreach(_ => connection.send(command(1000)))
    assert(!channel.isOpen, "above the limit")
  }

  test("whoever can be reached by others without an ACL is warned") {
    val loopback = InetAddress.getByName("127.0.0.1")
    val everywhere = InetAddress.getByName("0.0.0.0")
    val acl = BrokerConfig.of(Map("aclFile" -> "acl.conf"))
    assertEquals(EmbeddedBroker.exposure(loopback, BrokerConfig.defaults), None)
    assert(EmbeddedBroker.exposure(everywhere, BrokerConfig.defaults).exists(_.contains("aclFile")))
    assertEquals(EmbeddedBroker.exposure(everywhere, acl), None)
  }
}
