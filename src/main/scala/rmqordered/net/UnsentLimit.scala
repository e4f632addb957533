package rmqordered.net

import io.netty.buffer.ByteBuf
import io.netty.channel.{ChannelHandlerContext, ChannelOutboundHandlerAdapter, ChannelPromise}
import io.netty.util.concurrent.{Future, GenericFutureListener}
import org.slf4j.LoggerFactory

/**
 * One connection's part in the bound on unsent bytes. Each connection may have some up to its
 * high-water mark; when it gets crowded, a connection counts as full with its first unsent byte,
 * and takes part again when its client has taken everything. So many clients that read slowly get
 * their answers one by one, and one that reads waits for nobody. When that is not enough, `Unsent`
 * gives connections up. A peer that takes nothing at all for long is given up as well.
 *
 * Belongs to one connection and its thread; being given up may come from any.
 */
final class UnsentLimit(all: Unsent, stalledMs: Long = UnsentLimit.DefaultStalledMs)
    extends ChannelOutboundHandlerAdapter {
  import UnsentLimit._

  private var share: all.Share = _
  private var peer: StalledPeer = _

  override def handlerAdded(context: ChannelHandlerContext): Unit = {
    share = new all.Share(() => giveUp(context))
    peer = new StalledPeer(context, stalledMs, () => !share.isEmpty, () => giveUp(context))
  }

  private def giveUp(context: ChannelHandlerContext): Unit = {
    logger.warn("closing a connection that does not read client={}", context.channel())
    val _ = context.close()
  }

  override def write(context: ChannelHandlerContext, message: Any, promise: ChannelPromise): Unit =
    message match {
      case bytes: ByteBuf =>
        val size = bytes.readableBytes().toLong
        share.sending(size)
        val taken: GenericFutureListener[Future[Void]] = _ => {
          share.ended(size)
          if (share.isEmpty) setWritable(context, isWritable = true)
        }
        context.write(bytes, promise.unvoid().addListener(taken))
        peer.sending()
        if (!share.isEmpty && all.isCrowded) setWritable(context, isWritable = false)
      case other =>
        val _ = context.write(other, promise)
    }

  private def setWritable(context: ChannelHandlerContext, isWritable: Boolean): Unit = {
    // A channel that was closed has none.
    val buffer = context.channel().unsafe().outboundBuffer()
    if (buffer != null) buffer.setUserDefinedWritability(WritabilityIndex, isWritable)
  }
}

object UnsentLimit {
  private val logger = LoggerFactory.getLogger(classOf[UnsentLimit])

  // As long as a silent connection may last.
  private val DefaultStalledMs = 120000L

  // Netty gives handlers 31 flags; nobody else here uses one.
  private val WritabilityIndex = 1
}
