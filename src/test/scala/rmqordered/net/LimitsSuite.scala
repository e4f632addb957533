package rmqordered.net

import java.net.{InetAddress, InetSocketAddress, SocketAddress}

import io.netty.channel.embedded.EmbeddedChannel
import io.netty.channel.{ChannelHandlerContext, ChannelOutboundHandlerAdapter}

import rmqordered.EmbeddedBroker
import rmqordered.config.BrokerConfig
import rmqordered.handler.{Connection, TestClient}
import rmqordered.protocol.{Body, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.ManualClock

class LimitsSuite extends munit.FunSuite {
  import SocketFixture._

  private val code = RequestCode.GetBrokerClusterInfo

  private def memory = new RequestMemory(1000000, new ManualClock())

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
    val inFlight = new InFlight(10, 10000, memory)
    assert(inFlight.begin(command(6000)) && !inFlight.isFull)
    assert(inFlight.begin(command(6000)) && inFlight.isFull)
    assert(inFlight.end(command(6000)), "this made room")
    assert(!inFlight.isFull && !inFlight.end(command(6000)), "there was room before")
    assert(inFlight.begin(command(12000)) && inFlight.isFull)
    assert(inFlight.shrink(command(12000), command(0)) && !inFlight.isFull, "it waits, and is less")
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

  test("long polls with large bodies cost next to nothing while they wait") {
    withBroker("maxRequestBytes" -> "4000000") { broker =>
      val first = connect(broker)
      first.send(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), "x".getBytes)
      assertEquals(first.receive().code, 0)
      val pollers = Seq.fill(20)(connect(broker))
      val body = new Array[Byte](1000000)
      pollers.foreach(
        _.send(RequestCode.PullMessage, TestClient.pullFields("t", 0, 1, "sysFlag" -> "6"), body)
      )
      // Twenty megabytes went through four; a large message still does.
      first.send(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), body)
      assertEquals(first.receive().code, 0)
      pollers.foreach(poller => assertEquals(poller.receive().code, 0))
    }
  }

  test("frames that never end hold up nobody with ordinary requests, and end for those who wait") {
    withBroker("maxRequestBytes" -> "4000000") { broker =>
      val client = connect(broker)
      val beginning = java.nio.ByteBuffer.allocate(8).putInt(1500000).putInt(100).array()
      val stalled = Seq.fill(40)(new java.net.Socket(broker.host(), broker.port()))
      stalled.foreach(_.getOutputStream.write(beginning))
      (1 to 20).foreach { i =>
        client.send(
          RequestCode.SendMessageV2,
          TestClient.sendFields("t", 0),
          new Array[Byte](50000),
          i
        )
        assertEquals(client.receive().code, 0)
      }
      stalled.foreach(_.close())
      client.send(
        RequestCode.SendMessageV2,
        TestClient.sendFields("t", 0),
        new Array[Byte](1000000)
      )
      assertEquals(client.receive().code, 0)
    }
  }

  test("whoever does not read is given up before it fills the memory") {
    val nobody = new ConnectionListener {
      override def received(command: RemotingCommand, connection: Connection): Unit = ()
      override def overloaded(command: RemotingCommand, connection: Connection): Unit = ()
      override def disconnected(connection: Connection): Unit = ()
    }
    val connection =
      new ClientConnection(
        nobody,
        ConnectionLimits(10, 10000, maxUnsentBytes = 100000),
        memory,
        LoopTurns.perThread(new ManualClock())
      )
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
