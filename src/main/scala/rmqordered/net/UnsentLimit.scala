package rmqordered.net

import java.util.concurrent.atomic.AtomicLong

import io.netty.buffer.ByteBuf
import io.netty.channel.{ChannelHandlerContext, ChannelOutboundHandlerAdapter, ChannelPromise}
import io.netty.util.concurrent.{Future, GenericFutureListener}

/** The bytes of all connections that are written and that their clients have not taken yet. */
final class UnsentBytes(limit: Long) {
  private val total = new AtomicLong()

  def add(bytes: Long): Unit = { val _ = total.addAndGet(bytes) }

  def isOverLimit: Boolean = total.get() > limit
}

/**
 * One connection's part in the bound on unsent bytes. Each connection may have some up to its
 * high-water mark; when all together have too many, a connection counts as full with its first
 * unsent byte, and takes part again when its client has taken everything. So many clients that read
 * slowly get their answers one by one, and one that reads waits for nobody.
 *
 * Belongs to one connection and its thread.
 */
final class UnsentLimit(all: UnsentBytes) extends ChannelOutboundHandlerAdapter {
  import UnsentLimit._

  private var unsent = 0L

  override def write(context: ChannelHandlerContext, message: Any, promise: ChannelPromise): Unit =
    message match {
      case bytes: ByteBuf =>
        val size = bytes.readableBytes().toLong
        add(size)
        val taken: GenericFutureListener[Future[Void]] = _ => {
          add(-size)
          if (unsent == 0) setWritable(context, isWritable = true)
        }
        context.write(bytes, promise.unvoid().addListener(taken))
        if (unsent > 0 && all.isOverLimit) setWritable(context, isWritable = false)
      case other =>
        val _ = context.write(other, promise)
    }

  private def add(bytes: Long): Unit = {
    unsent += bytes
    all.add(bytes)
  }

  private def setWritable(context: ChannelHandlerContext, isWritable: Boolean): Unit = {
    // A channel that was closed has none.
    val buffer = context.channel().unsafe().outboundBuffer()
    if (buffer != null) buffer.setUserDefinedWritability(WritabilityIndex, isWritable)
  }
}

object UnsentLimit {

  // Netty gives handlers 31 flags; nobody else here uses one.
  private val WritabilityIndex = 1
}
