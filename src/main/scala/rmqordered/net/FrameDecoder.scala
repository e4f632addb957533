package rmqordered.net

import java.util
import java.util.concurrent.TimeUnit

import io.netty.buffer.{ByteBuf, Unpooled}
import io.netty.channel.ChannelHandlerContext
import io.netty.handler.codec.ByteToMessageDecoder
import org.slf4j.LoggerFactory

import rmqordered.protocol.{FrameCodec, ProtocolError}

/**
 * Cuts a byte stream into frames and decodes them. Lengths are checked as soon as their words are
 * there, so that a lying peer is found out before anything is buffered for it.
 *
 * What has come of a frame is kept in an array of its size, never in network buffers, and counts in
 * the memory for requests. Where that has no room the connection is not read from until it has.
 */
final class FrameDecoder(maxFrameBytes: Int, memory: RequestMemory) extends ByteToMessageDecoder {
  import FrameDecoder._

  private val word = new Array[Byte](FrameCodec.LengthBytes)
  private var frame: Array[Byte] = _
  private var filled = 0
  private var hasFailed = false
  private var isWaiting = false
  // Of a frame that is decoded, until the request counts by itself.
  private var isHandedOn = false
  private var claim: memory.Claim = _

  override def handlerAdded(context: ChannelHandlerContext): Unit =
    claim = new memory.Claim(() => onLoop(context)(goOn(context)), () => giveUp(context))

  override def decode(
      context: ChannelHandlerContext,
      in: ByteBuf,
      out: util.List[AnyRef]
  ): Unit = {
    endHandedOn()
    if (hasFailed) {
      // Netty asks again until the connection is closed; what follows bad bytes means nothing.
      val _ = in.skipBytes(in.readableBytes())
    } else if (!isWaiting)
      try decodeNext(context, in, out)
      catch {
        case error: ProtocolError =>
          hasFailed = true
          throw error
      }
  }

  private def decodeNext(
      context: ChannelHandlerContext,
      in: ByteBuf,
      out: util.List[AnyRef]
  ): Unit = {
    if (frame == null && fill(in, word)) begin(context)
    if (frame != null) {
      val isComplete = fill(in, frame)
      if (filled >= FrameCodec.LengthBytes)
        FrameCodec.ensureHeaderWord(FrameCodec.wordAt(frame), frame.length, MaxHeaderBytes)
      if (isComplete) {
        val whole = frame
        reset()
        isHandedOn = true
        val _ = out.add(FrameCodec.decode(whole))
      }
    }
  }

  /** Takes what is there of an array's bytes; whether it is full. */
  private def fill(in: ByteBuf, target: Array[Byte]): Boolean = {
    val count = Math.min(in.readableBytes(), target.length - filled)
    in.readBytes(target, filled, count)
    filled += count
    filled == target.length
  }

  private def begin(context: ChannelHandlerContext): Unit = {
    val length = FrameCodec.wordAt(word)
    FrameCodec.ensureLength(length, maxFrameBytes)
    claim.begin(length) match {
      case RequestMemory.Outcome.Granted => allocate(length)
      case RequestMemory.Outcome.Waits =>
        isWaiting = true
        context.fireUserEventTriggered(RoomWanted)
        checkLater(context)
      case RequestMemory.Outcome.Refused =>
        throw new ProtocolError(
          s"there is no room for its frame of $length bytes, and too many wait already"
        )
    }
  }

  private def allocate(length: Int): Unit = {
    frame = new Array[Byte](length)
    filled = 0
  }

  private def reset(): Unit = {
    frame = null
    filled = 0
  }

  private def endHandedOn(): Unit = if (isHandedOn) {
    isHandedOn = false
    claim.end()
  }

  override def channelReadComplete(context: ChannelHandlerContext): Unit = {
    endHandedOn()
    // Netty's decoder would go on reading until there is a frame.
    if (isWaiting) { val _ = context.fireChannelReadComplete() }
    else super.channelReadComplete(context)
  }

  /** There is room. What came meanwhile waits in the decoder's buffer. */
  private def goOn(context: ChannelHandlerContext): Unit =
    if (isWaiting) {
      isWaiting = false
      allocate(FrameCodec.wordAt(word))
      channelRead(context, Unpooled.EMPTY_BUFFER)
      endHandedOn()
      // No read is under way that would end by itself: answers wait for that end to leave.
      context.fireChannelReadComplete()
      val _ = context.fireUserEventTriggered(RoomFound)
    }

  private def checkLater(context: ChannelHandlerContext): Unit = {
    val check: Runnable = () =>
      if (isWaiting) {
        memory.giveUpSlow()
        checkLater(context)
      }
    val _ =
      context.executor().schedule(check, RequestMemory.CheckMs, TimeUnit.MILLISECONDS)
  }

  private def giveUp(context: ChannelHandlerContext): Unit = {
    logger.warn(
      "closing a connection that takes too long over a frame while others wait client={}",
      context.channel().remoteAddress()
    )
    val _ = context.close()
  }

  override def channelInactive(context: ChannelHandlerContext): Unit = {
    super.channelInactive(context)
    abandon()
  }

  override def handlerRemoved0(context: ChannelHandlerContext): Unit = abandon()

  private def abandon(): Unit = {
    isWaiting = false
    hasFailed = true
    reset()
    claim.end()
  }

  private def onLoop(context: ChannelHandlerContext)(task: => Unit): Unit =
    try context.executor().execute(() => task)
    catch {
      // The network threads have stopped, and the connection with them.
      case _: util.concurrent.RejectedExecutionException => ()
    }
}

object FrameDecoder {
  private val logger = LoggerFactory.getLogger(classOf[FrameDecoder])

  // RocketMQ's properties have at most 32 KiB, six times that in the worst JSON.
  private val MaxHeaderBytes = 1024 * 1024

  /** The connection is not to be read from until there is room. */
  case object RoomWanted

  case object RoomFound
}
