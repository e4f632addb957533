package rmqordered.net

import java.net.{InetSocketAddress, SocketAddress}

import io.netty.buffer.Unpooled
import io.netty.channel.embedded.EmbeddedChannel
import io.netty.handler.codec.DecoderException

import scala.util.Random

import rmqordered.handler.Connection
import rmqordered.protocol.{FrameCodec, Golden, RemotingCommand, SerializeType}
import rmqordered.util.ManualClock

class FrameDecoderSuite extends munit.FunSuite {
  private val frames = Golden.cases("frames.json").map(c => Golden.bytes(c.get("hex").asText()))
  private val stream = frames.reduce(_ ++ _)
  private val MaxFrame = 4096

  private def memory(bytes: Long): RequestMemory = new RequestMemory(bytes, new ManualClock())

  private def decode(pieces: Seq[Array[Byte]]): Seq[String] = {
    val channel = new EmbeddedChannel(new FrameDecoder(MaxFrame, memory(1000000)))
    pieces.foreach(piece => channel.writeInbound(Unpooled.wrappedBuffer(piece)))
    val decoded = Iterator.continually(channel.readInbound[RemotingCommand]()).takeWhile(_ != null)
    val texts = decoded.map(c => s"${c.copy(body = null)} ${Golden.hex(c.body.toArray)}").toVector
    channel.finishAndReleaseAll()
    texts
  }

  private lazy val whole = decode(Seq(stream))

  test("a stream of frames is decoded into its commands") {
    assertEquals(whole.length, frames.length)
  }

  test("every split point of the stream gives the same commands") {
    (0 to stream.length).foreach { at =>
      assertEquals(decode(Seq(stream.take(at), stream.drop(at))), whole, s"split at $at")
    }
  }

  test("byte by byte the stream gives the same commands") {
    assertEquals(decode(stream.toSeq.map(Array(_))), whole)
  }

  test("random pieces of the stream give the same commands") {
    val random = new Random(5)
    (1 to 200).foreach { _ =>
      val cuts = Seq.fill(random.nextInt(8))(random.nextInt(stream.length)).sorted
      val edges = (0 +: cuts) :+ stream.length
      val pieces = edges.zip(edges.tail).map { case (from, to) => stream.slice(from, to) }
      assertEquals(decode(pieces), whole)
    }
  }

  private def refuses(hex: String): Unit = {
    val channel = new EmbeddedChannel(new FrameDecoder(MaxFrame, memory(1000000)))
    intercept[DecoderException](channel.writeInbound(Unpooled.wrappedBuffer(Golden.bytes(hex))))
    // Once is enough: what follows is dropped without another error, a good frame too.
    channel.writeInbound(Unpooled.wrappedBuffer(stream))
    assertEquals(channel.readInbound[RemotingCommand](), null)
    val _ = channel.finishAndReleaseAll()
  }

  test("a length that lies is refused as soon as it is there") {
    Seq(
      "ffffffff",
      "80000000",
      "00000000",
      "00000003",
      "00000ffd",
      "7fffffff",
      "47455420"
    ).foreach(refuses)
  }

  test("a header longer than its frame is refused before the frame is there") {
    refuses("0000001000000011")
    refuses("0000001002000001")
  }

  test("the largest frame allowed is decoded") {
    val empty = frames.find(f => FrameCodec.decode(f.drop(4)).body.isEmpty).get
    val command = FrameCodec.decode(empty.drop(4))
    val room = MaxFrame - FrameCodec.encode(command, SerializeType.Json).length
    val largest = command.copy(body = rmqordered.protocol.Body(new Array[Byte](room)))
    assertEquals(decode(Seq(FrameCodec.encode(largest, SerializeType.Json))).length, 1)
  }

  test("a header of more than a mebibyte is refused before it is there") {
    val channel = new EmbeddedChannel(new FrameDecoder(16 << 20, memory(64 << 20)))
    val word = Golden.bytes("00200000" + "00100001")
    intercept[DecoderException](channel.writeInbound(Unpooled.wrappedBuffer(word)))
    val _ = channel.finishAndReleaseAll()
  }

  test("a frame without room is not read until there is some, and nothing after it is lost") {
    val shared = memory(40000)
    val channel = new EmbeddedChannel(new FrameDecoder(1 << 20, shared))
    val command = FrameCodec.decode(frames.head.drop(4))
    val frame = FrameCodec.encode(
      command.copy(body = rmqordered.protocol.Body(new Array[Byte](9000))),
      SerializeType.Json
    )
    shared.hold(40000)
    channel.writeInbound(Unpooled.wrappedBuffer(frame ++ frames.head))
    assertEquals(channel.readInbound[RemotingCommand](), null)
    shared.release(40000)
    channel.runPendingTasks()
    assertEquals(channel.readInbound[RemotingCommand]().body.length, 9000)
    assertEquals(channel.readInbound[RemotingCommand]().opaque, command.opaque)
    assertEquals(shared.totalBytes, 0L)
    val _ = channel.finishAndReleaseAll()
  }

  test("a request whose frame had to wait for room has its answer leave at once") {
    val shared = memory(40000)
    val answering = new ConnectionListener {
      override def received(command: RemotingCommand, connection: Connection): Unit =
        connection.send(RemotingCommand.response(command.opaque, 0))
      override def overloaded(command: RemotingCommand, connection: Connection): Unit =
        received(command, connection)
      override def disconnected(connection: Connection): Unit = ()
    }
    val channel = new EmbeddedChannel(
      new FrameDecoder(1 << 20, shared),
      new ClientConnection(
        answering,
        ConnectionLimits(10, 100000, 100000),
        shared,
        LoopTurns.perThread(new ManualClock())
      )
    ) {
      override def remoteAddress0(): SocketAddress = new InetSocketAddress("10.0.0.1", 5)
    }
    val command = FrameCodec.decode(frames.head.drop(4))
    val body = rmqordered.protocol.Body(new Array[Byte](9000))
    val frame = FrameCodec.encode(command.copy(flag = 0, body = body), SerializeType.Json)
    shared.hold(40000)
    channel.writeInbound(Unpooled.wrappedBuffer(frame))
    shared.release(40000)
    channel.runPendingTasks()
    assertEquals(channel.readOutbound[RemotingCommand]().opaque, command.opaque)
    val _ = channel.finishAndReleaseAll()
  }

  test("what has come of a frame counts until it is complete or its connection is gone") {
    val shared = memory(1000000)
    def half(): EmbeddedChannel = {
      val channel = new EmbeddedChannel(new FrameDecoder(1 << 20, shared))
      channel.writeInbound(Unpooled.wrappedBuffer(Golden.bytes("00002710" + "00000010" + "7b")))
      channel
    }
    val channels = Seq.fill(3)(half())
    assertEquals(shared.totalBytes, 30000L)
    channels.foreach(_.finishAndReleaseAll())
    assertEquals(shared.totalBytes, 0L)
  }

  test("the encoder writes exactly what the codec writes") {
    frames.foreach { frame =>
      val command = FrameCodec.decode(frame.drop(4))
      val channel = new EmbeddedChannel(new FrameEncoder)
      channel.writeOutbound(command)
      val out = channel.readOutbound[io.netty.buffer.ByteBuf]()
      val bytes = new Array[Byte](out.readableBytes())
      out.readBytes(bytes)
      assertEquals(Golden.hex(bytes), Golden.hex(FrameCodec.encode(command, SerializeType.Json)))
      out.release()
      channel.finishAndReleaseAll()
    }
  }
}
