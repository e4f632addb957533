package rmqordered.net

import java.util

import io.netty.buffer.ByteBuf
import io.netty.channel.ChannelHandlerContext
import io.netty.handler.codec.ByteToMessageDecoder

import rmqordered.protocol.ProtocolError

/**
 * Looks at a connection's first byte and makes room for TLS, or for nothing. A TLS handshake begins
 * with 0x16; a frame begins with the high byte of its length, which stays below that as long as
 * frames stay below 352 MiB.
 */
final class TlsDetector(setup: TlsSetup) extends ByteToMessageDecoder {
  import TlsDetector._

  override def decode(context: ChannelHandlerContext, in: ByteBuf, out: util.List[AnyRef]): Unit = {
    val isTls = in.getByte(in.readerIndex()) == HandshakeRecord
    val pipeline = context.pipeline()
    setup match {
      case TlsSetup.WithTls(tls, _) if isTls =>
        val _ = pipeline.replace(this, "tls", tls.newHandler(context.alloc()))
      case TlsSetup.WithTls(_, false) =>
        throw new ProtocolError("the connection is not encrypted and this broker enforces TLS")
      case TlsSetup.PlainOnly if isTls =>
        throw new ProtocolError("the client speaks TLS, which is disabled here")
      case TlsSetup.PlainOnly | TlsSetup.WithTls(_, true) =>
        val _ = pipeline.remove(this)
    }
  }
}

object TlsDetector {
  private val HandshakeRecord: Byte = 0x16
}
