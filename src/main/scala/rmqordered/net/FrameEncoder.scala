package rmqordered.net

import io.netty.buffer.ByteBuf
import io.netty.channel.ChannelHandler.Sharable
import io.netty.channel.ChannelHandlerContext
import io.netty.handler.codec.MessageToByteEncoder

import rmqordered.protocol.{FrameCodec, RemotingCommand, SerializeType}

/**
 * Writes commands as frames, always with a JSON header, as a Java broker with default settings
 * does. The body is copied once, from where it is stored into the network buffer.
 */
@Sharable
final class FrameEncoder extends MessageToByteEncoder[RemotingCommand](classOf[RemotingCommand]) {
  private val serializeType = SerializeType.Json

  // Called first, to get a buffer of the right size; the header is encoded in `encode`.
  override def allocateBuffer(
      context: ChannelHandlerContext,
      command: RemotingCommand,
      preferDirect: Boolean
  ): ByteBuf = context.alloc().ioBuffer(FrameEncoder.bufferBytes(command))

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

  // Most headers are smaller; a larger one makes the buffer grow once.
  private val HeaderGuessBytes = 512

  /** What a command takes while it waits to be sent. */
  def bufferBytes(command: RemotingCommand): Int = HeaderGuessBytes + command.body.length
}
