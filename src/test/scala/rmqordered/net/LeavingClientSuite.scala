package rmqordered.net

import java.net.{InetSocketAddress, Socket}
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import rmqordered.config.BrokerConfig
import rmqordered.handler.Connection
import rmqordered.protocol.{Body, FrameCodec, RemotingCommand, RequestCode, SerializeType}

/** A client that leaves with an answer unread resets its connection, after all it has sent. */
class LeavingClientSuite extends munit.FunSuite {
  private val TimeoutS = 20L
  private val Commits = 100

  /** Tells what comes, and answers the first request as the test wants. */
  private final class Recorder(onFirst: Connection => Unit) extends ConnectionListener {
    val events = new LinkedBlockingQueue[String]()
    override def received(command: RemotingCommand, connection: Connection): Unit = {
      events.put(s"received ${command.opaque}")
      if (command.opaque == 0) onFirst(connection)
      connection.finished(command)
    }
    override def overloaded(command: RemotingCommand, connection: Connection): Unit =
      events.put(s"overloaded ${command.opaque}")
    override def disconnected(connection: Connection): Unit = events.put("disconnected")

    def next(): String =
      Option(events.poll(TimeoutS, TimeUnit.SECONDS)).getOrElse(fail("nothing more happened"))

    def untilDisconnected(): Seq[String] =
      Iterator.continually(next()).takeWhile(_ != "disconnected").toSeq
  }

  private def withServer(recorder: Recorder, settings: (String, String)*)(
      body: InetSocketAddress => Unit
  ): Unit = {
    val server = new BrokerServer(BrokerConfig.of(settings.toMap))
    val address = server.bind(new InetSocketAddress("127.0.0.1", 0))
    server.accept(recorder)
    try body(address)
    finally server.close()
  }

  private def connect(address: InetSocketAddress): Socket = {
    val socket = new Socket(address.getAddress, address.getPort)
    socket.setTcpNoDelay(true)
    socket.setSoTimeout(TimeoutS.toInt * 1000)
    socket
  }

  private def commit(opaque: Int): Array[Byte] = {
    val code = RequestCode.UpdateConsumerOffset
    FrameCodec.encode(
      RemotingCommand(code, "GO", 317, opaque, 2, None, None, Body(new Array[Byte](200))),
      SerializeType.Json
    )
  }

  // In one piece: a client's system keeps back what follows some dozen small ones, and a reset
  // drops it there.
  private def commits: Array[Byte] = (1 to Commits).flatMap(i => commit(i)).toArray

  private def answer(bytes: Int): RemotingCommand =
    RemotingCommand.response(0, 0, None, None, Body(new Array[Byte](bytes)))

  private def received(opaques: Range): Seq[String] = opaques.map(i => s"received $i")

  test("an answer that cannot be written does not end the reading of what came before the reset") {
    val hasLeft = new CountDownLatch(1)
    val recorder = new Recorder({ connection =>
      assert(hasLeft.await(TimeoutS, TimeUnit.SECONDS))
      // The first write meets the reset, the others a connection that takes no answers.
      (1 to 3).foreach(_ => connection.send(answer(10)))
    })
    withServer(recorder) { address =>
      val client = connect(address)
      client.getOutputStream.write(commit(0))
      assertEquals(recorder.next(), "received 0")
      // The connection's thread is busy: all of these stay in the system's buffer.
      client.getOutputStream.write(commits)
      client.setSoLinger(true, 0)
      client.close()
      hasLeft.countDown()
      assertEquals(recorder.untilDisconnected(), received(1 to Commits))
    }
  }

  test("what waited for a client to read is served when it leaves without reading") {
    val recorder =
      new Recorder(connection => (1 to 4).foreach(_ => connection.send(answer(4000000))))
    withServer(recorder, "writeBufferHighWaterMark" -> "65536") { address =>
      val client = connect(address)
      client.getOutputStream.write(commit(0))
      assertEquals(recorder.next(), "received 0")
      // The answers are on their way, and not all of them fit into the system's buffers.
      assert(client.getInputStream.read() >= 0)
      client.getOutputStream.write(commits)
      assertEquals(recorder.events.peek(), null, "served though its answers are not taken")
      client.close()
      assertEquals(recorder.untilDisconnected(), received(1 to Commits))
    }
  }
}
