package rmqordered.net

import java.net.{InetSocketAddress, SocketAddress}

import scala.collection.mutable

import io.netty.channel.embedded.EmbeddedChannel

import rmqordered.handler.Connection
import rmqordered.protocol.{Body, RemotingCommand, RequestCode}

class ClientConnectionSuite extends munit.FunSuite {

  private final class Recorder extends ConnectionListener {
    val events = mutable.Buffer.empty[String]
    override def received(command: RemotingCommand, connection: Connection): Unit =
      events += s"received ${command.opaque}"
    override def overloaded(command: RemotingCommand, connection: Connection): Unit =
      events += s"overloaded ${command.opaque}"
    override def disconnected(connection: Connection): Unit = events += "disconnected"
  }

  private def commit(opaque: Int): RemotingCommand =
    RemotingCommand(
      RequestCode.UpdateConsumerOffset,
      "GO",
      317,
      opaque,
      2,
      None,
      None,
      Body(Array.emptyByteArray)
    )

  private def connected(recorder: Recorder): EmbeddedChannel =
    new EmbeddedChannel(new ClientConnection(recorder, ConnectionLimits(10, 10000, 100000))) {
      override def remoteAddress0(): SocketAddress = new InetSocketAddress("10.0.0.1", 5)
    }

  test("requests of a client that takes no answers wait, in order, until it does") {
    val recorder = new Recorder
    val channel = connected(recorder)
    channel.unsafe().outboundBuffer().setUserDefinedWritability(1, false)
    channel.writeInbound(commit(1), commit(2))
    assertEquals(recorder.events.toSeq, Seq.empty[String])
    channel.unsafe().outboundBuffer().setUserDefinedWritability(1, true)
    channel.runPendingTasks()
    assertEquals(recorder.events.toSeq, Seq("received 1", "received 2"))
  }

  test("what a client sent before it left is served, though nobody takes the answers") {
    val recorder = new Recorder
    val channel = connected(recorder)
    channel.unsafe().outboundBuffer().setUserDefinedWritability(1, false)
    channel.writeInbound(commit(1), commit(2))
    val _ = channel.close()
    assertEquals(recorder.events.toSeq, Seq("received 1", "received 2", "disconnected"))
  }
}
