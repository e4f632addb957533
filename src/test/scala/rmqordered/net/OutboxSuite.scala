package rmqordered.net

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.collection.mutable

import io.netty.channel.embedded.EmbeddedChannel
import io.netty.channel.local.{LocalChannel, LocalIoHandler}
import io.netty.channel.{
  ChannelHandlerContext,
  ChannelInboundHandlerAdapter,
  ChannelOutboundHandlerAdapter,
  ChannelPromise,
  EventLoopGroup,
  MultiThreadIoEventLoopGroup
}
import io.netty.util.concurrent.EventExecutor

import rmqordered.protocol.{Body, RemotingCommand, ResponseCode}

class OutboxSuite extends munit.FunSuite {

  /** What reaches the socket, in order: numbers of answers, and where it is flushed. */
  private final class Wire extends ChannelOutboundHandlerAdapter {
    val events = mutable.Buffer.empty[String]

    override def write(
        context: ChannelHandlerContext,
        message: Any,
        promise: ChannelPromise
    ): Unit = {
      events += message.asInstanceOf[RemotingCommand].opaque.toString
      val _ = promise.setSuccess()
    }

    override def flush(context: ChannelHandlerContext): Unit = events += "flush"
  }

  private final class Setup {
    val wire = new Wire
    private val end = new ChannelInboundHandlerAdapter
    val outbox = new Outbox(new EmbeddedChannel(wire, end).pipeline().context(end))
  }

  private def answer(opaque: Int, body: String = ""): RemotingCommand =
    RemotingCommand.response(opaque, ResponseCode.Success, None, None, Body(body.getBytes))

  /** Returns when everything that waited before has run. */
  private def awaitTurn(executor: EventExecutor): Unit = {
    val nothing: Runnable = () => ()
    val _ = executor.submit(nothing).syncUninterruptibly()
  }

  test("answers given during a read leave together at its end") {
    val setup = new Setup
    setup.outbox.readBegins()
    (1 to 3).foreach(n => setup.outbox.send(answer(n)))
    assertEquals(setup.wire.events.toSeq, Seq("1", "2", "3"))
    setup.outbox.readEnds()
    assertEquals(setup.wire.events.toSeq, Seq("1", "2", "3", "flush"))
  }

  test("answers do not wait for the end of a long read") {
    val setup = new Setup
    setup.outbox.readBegins()
    (1 to Outbox.MaxTogether + 1).foreach(n => setup.outbox.send(answer(n)))
    val (before, after) = setup.wire.events.toSeq.splitAt(Outbox.MaxTogether)
    assertEquals(before.last, Outbox.MaxTogether.toString)
    assertEquals(after, Seq("flush", (Outbox.MaxTogether + 1).toString))
  }

  test("a read without an answer flushes nothing") {
    val setup = new Setup
    setup.outbox.readBegins()
    setup.outbox.readEnds()
    assertEquals(setup.wire.events.toSeq, Seq.empty[String])
  }

  test("an answer with a body leaves at once and takes those before it along") {
    val setup = new Setup
    setup.outbox.readBegins()
    setup.outbox.send(answer(1))
    setup.outbox.send(answer(2, "messages"))
    assertEquals(setup.wire.events.toSeq, Seq("1", "2", "flush"))
    setup.outbox.readEnds()
    assertEquals(setup.wire.events.toSeq, Seq("1", "2", "flush"))
  }

  test("an answer outside a read leaves at once") {
    val setup = new Setup
    setup.outbox.send(answer(1))
    assertEquals(setup.wire.events.toSeq, Seq("1", "flush"))
  }

  test("answers of other threads leave together, in their order, and later ones too") {
    // An embedded channel takes every thread for its own; this one has one.
    val threads: EventLoopGroup =
      new MultiThreadIoEventLoopGroup(1, LocalIoHandler.newFactory())
    try {
      val (wire, end, channel) = (new Wire, new ChannelInboundHandlerAdapter, new LocalChannel)
      channel.pipeline().addLast(wire, end)
      threads.register(channel).syncUninterruptibly()
      val own = channel.eventLoop()
      val outbox = new Outbox(channel.pipeline().context(end))
      val isBusy = new CountDownLatch(1)
      own.execute(() => isBusy.await())
      (1 to 3).foreach(n => outbox.send(answer(n)))
      assertEquals(wire.events.toSeq, Seq.empty[String])
      isBusy.countDown()
      awaitTurn(own)
      assertEquals(wire.events.toSeq, Seq("1", "2", "3", "flush"))
      outbox.send(answer(4))
      awaitTurn(own)
      assertEquals(wire.events.toSeq, Seq("1", "2", "3", "flush", "4", "flush"))
    } finally {
      val _ = threads.shutdownGracefully(0, 0, TimeUnit.MILLISECONDS)
    }
  }
}
