package rmqordered.net

import java.util.concurrent.TimeUnit

import io.netty.channel.ChannelHandlerContext

/**
 * Notices a peer that takes nothing of what is sent to it for a whole period, however much it sends
 * itself: one byte taken is enough to go on. Looks once in a period, and only while something is
 * unsent, so it may take up to two periods.
 *
 * Belongs to one connection and its thread.
 */
private[net] final class StalledPeer(
    context: ChannelHandlerContext,
    periodMs: Long,
    hasUnsent: () => Boolean,
    giveUp: () => Unit
) {
  private var isWatched = false
  private var lastSeen: (AnyRef, Long) = (null, 0L)

  /** Something was given to the connection to be sent. */
  def sending(): Unit = if (!isWatched) {
    isWatched = true
    lastSeen = place
    watch()
  }

  private def watch(): Unit = {
    val _ = context.executor().schedule(
      (() => look()): Runnable,
      periodMs,
      TimeUnit.MILLISECONDS
    )
  }

  private def look(): Unit =
    if (!hasUnsent() || !context.channel().isOpen) isWatched = false
    else {
      val now = place
      if (now._1 != null && (now._1 eq lastSeen._1) && now._2 == lastSeen._2) giveUp()
      else {
        lastSeen = now
        watch()
      }
    }

  /** The message that is being sent, and how much of it was taken. */
  private def place: (AnyRef, Long) = {
    val buffer = context.channel().unsafe().outboundBuffer()
    if (buffer == null) (null, 0L) else (buffer.current(), buffer.currentProgress())
  }
}
