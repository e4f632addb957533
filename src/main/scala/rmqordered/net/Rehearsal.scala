package rmqordered.net

import java.net.{InetAddress, InetSocketAddress, SocketAddress}

import io.netty.buffer.Unpooled
import io.netty.channel.ChannelHandler
import io.netty.channel.embedded.EmbeddedChannel

import rmqordered.protocol.{Body, FrameCodec, RemotingCommand, RequestCode, SerializeType}

/**
 * A question that the broker asks itself, through the handlers of a connection but without a
 * socket, before it is ready. A first request loads hundreds of classes, for seconds on a busy
 * machine; no client's deadline should have to cover that.
 */
object Rehearsal {

  def run(handlers: ChannelHandler*): Unit = {
    val connection = new EmbeddedChannel(handlers: _*) {
      override def remoteAddress0(): SocketAddress =
        new InetSocketAddress(InetAddress.getLoopbackAddress, 0)
    }
    connection.writeInbound(Unpooled.wrappedBuffer(FrameCodec.encode(question, SerializeType.Json)))
    val _ = connection.finishAndReleaseAll()
  }

  private def question = RemotingCommand(
    RequestCode.GetBrokerClusterInfo,
    RemotingCommand.Language,
    RemotingCommand.Version,
    opaque = 0,
    flag = 0,
    remark = None,
    extFields = None,
    Body.empty
  )
}
