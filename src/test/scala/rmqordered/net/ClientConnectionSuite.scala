package rmqordered.net

import java.net.{InetSocketAddress, SocketAddress}

import scala.collection.mutable

import io.netty.channel.embedded.EmbeddedChannel
import io.netty.handler.codec.DecoderException

import rmqordered.handler.Connection
import rmqordered.protocol.{Body, ProtocolError, RemotingCommand, RequestCode}
import rmqordered.util.ManualClock

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

  private val limits = ConnectionLimits(10, 10000, 100000)
  private def memory = new RequestMemory(1000000, new ManualClock())

  private def connected(listener: ConnectionListener): EmbeddedChannel =
    new EmbeddedChannel(new ClientConnection(
      listener,
      limits,
      memory,
      LoopTurns.perThread(new ManualClock())
    )) {
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

  /** Answers every request at once. */
  private final class Answering extends ConnectionListener {
    override def received(command: RemotingCommand, connection: Connection): Unit =
      answer(command, connection)

    override def overloaded(command: RemotingCommand, connection: Connection): Unit =
      answer(command, connection)

    override def disconnected(connection: Connection): Unit = ()

    private def answer(command: RemotingCommand, connection: Connection): Unit =
      connection.send(
        RemotingCommand.response(command.opaque, 0, None, None, Body(Array.emptyByteArray))
      )
  }

  private def sent(channel: EmbeddedChannel): Seq[Int] =
    Iterator.continually(channel.readOutbound[RemotingCommand]()).takeWhile(_ != null).map(
      _.opaque
    ).toSeq

  test("answers leave in the order of the requests that came together") {
    val channel = connected(new Answering)
    channel.writeInbound(commit(1), commit(2), commit(3))
    assertEquals(sent(channel), Seq(1, 2, 3))
  }

  test("requests before bytes that are no request have their answers") {
    val channel = connected(new Answering)
    channel.pipeline().fireChannelRead(commit(1)).fireChannelRead(commit(2))
    channel.pipeline().fireExceptionCaught(new DecoderException(new ProtocolError("no request")))
    assertEquals(sent(channel), Seq(1, 2))
    assert(!channel.isActive)
  }

  test("when requests hold too much in all, whoever has unanswered ones is not read from") {
    val shared = new RequestMemory(100000, new ManualClock())
    def open(): (ClientConnection, EmbeddedChannel) = {
      val connection =
        new ClientConnection(new Recorder, limits, shared, LoopTurns.perThread(new ManualClock()))
      val channel = new EmbeddedChannel(connection) {
        override def remoteAddress0(): SocketAddress = new InetSocketAddress("10.0.0.1", 5)
      }
      (connection, channel)
    }
    val (busy, busyChannel) = open()
    val (idle, idleChannel) = open()
    busyChannel.writeInbound(commit(1))
    idleChannel.writeInbound(commit(2))
    idle.finished(commit(2))
    shared.hold(100000)
    busyChannel.writeInbound(commit(3))
    assert(!busyChannel.config().isAutoRead, "it has two unanswered")
    assert(idleChannel.config().isAutoRead, "it has none")
    busy.finished(commit(1))
    assert(!busyChannel.config().isAutoRead, "it still has one")
    busy.finished(commit(3))
    assert(busyChannel.config().isAutoRead, "it has none any more")
    busyChannel.writeInbound(commit(4))
    assert(!busyChannel.config().isAutoRead)
    shared.release(100000)
    assert(busyChannel.config().isAutoRead, "there is room again")
  }
}
