package rmqordered.net

import io.netty.buffer.ByteBuf
import io.netty.channel.ChannelHandler.Sharable
import io.netty.channel.{ChannelHandlerContext, ChannelPromise}
import io.netty.handler.codec.{EncoderException, MessageToByteEncoder}
import org.slf4j.LoggerFactory

import rmqordered.protocol.{FrameCodec, RemotingCommand, SerializeType}

/**
 * Writes commands as frames, always with a JSON header, as a Java broker with default settings
 * does. The body is copied once, from where it is stored into the network buffer.
 */
@Sharable
final class FrameEncoder extends MessageToByteEncoder[RemotingCommand](classOf[RemotingCommand]) {
  private val serializeType = SerializeType.Json

  /** An answer that cannot be written must not just be missing: the client would wait for it. */
  override def write(context: ChannelHandlerContext, message: Any, promise: ChannelPromise): Unit =
    try super.write(context, message, promise)
    catch {
      case error: EncoderException =>
        FrameEncoder.logger.warn(
          "closing a connection whose answer cannot be written client={} problem={}",
          context.channel().remoteAddress(),
          Option(error.getCause).getOrElse(error).toString
        )
        context.close()
        throw error
    }

  // Called first, to get a buffer of the right size; the header is encoded in `encode`.
  override def allocateBuffer(
      context: ChannelHandlerContext,
      command: RemotingCommand,
      preferDirect: Boolean
  ): ByteBuf = context.alloc().ioBuffer(FrameEncoder.HeaderGuessBytes + command.body.length)

  override def encode(
      context: ChannelHandlerContext,
      command: RemotingCommand,
      out: ByteBuf
  ): Unit = {
    val header = FrameCodec.encodeHeader(command, serializeType)
    val (length, word) = FrameCodec.prefix(header.length, command.body.length, serializeType)
    out.ensureWritable(FrameCodec.LengthBytes + length)
    out.writeInt(length).writeInt(word).writeBytes(header)
    if (!command.body.isEmpty) {
      val start = out.writerIndex()
      command.body.copyTo(out.nioBuffer(start, command.body.length))
      out.writerIndex(start + command.body.length)
    }
  }
}

object FrameEncoder {
  private val logger = LoggerFactory.getLogger(classOf[FrameEncoder])

  // Most headers are smaller; a larger one makes the buffer grow once.
  private val HeaderGuessBytes = 512
}
