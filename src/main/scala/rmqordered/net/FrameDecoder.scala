package rmqordered.net

import java.util

import io.netty.buffer.ByteBuf
import io.netty.channel.ChannelHandlerContext
import io.netty.handler.codec.ByteToMessageDecoder

import rmqordered.protocol.{FrameCodec, ProtocolError}

/**
 * Cuts a byte stream into frames and decodes them. Lengths are checked as soon as their words are
 * there, so that a lying peer is found out before anything is buffered for it.
 */
final class FrameDecoder(maxFrameBytes: Int) extends ByteToMessageDecoder {

  private var hasFailed = false

  override def decode(
      context: ChannelHandlerContext,
      in: ByteBuf,
      out: util.List[AnyRef]
  ): Unit =
    if (hasFailed) {
      // Netty asks again until the connection is closed; what follows bad bytes means nothing.
      val _ = in.skipBytes(in.readableBytes())
    } else
      try decodeNext(in, out)
      catch {
        case error: ProtocolError =>
          hasFailed = true
          throw error
      }

  private def decodeNext(in: ByteBuf, out: util.List[AnyRef]): Unit =
    if (in.readableBytes() >= FrameCodec.LengthBytes) {
      val start = in.readerIndex()
      val length = in.getInt(start)
      FrameCodec.ensureLength(length, maxFrameBytes)
      if (in.readableBytes() >= 2 * FrameCodec.LengthBytes)
        FrameCodec.ensureHeaderWord(in.getInt(start + FrameCodec.LengthBytes), length)
      if (in.readableBytes() >= FrameCodec.LengthBytes + length) {
        val word = in.skipBytes(FrameCodec.LengthBytes).readInt()
        val _ = out.add(FrameCodec.decode(word, length) { part =>
          val _ = in.readBytes(part)
        })
      }
    }
}
