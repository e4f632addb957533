package rmqordered.net

import java.net.InetSocketAddress

import io.netty.channel.{Channel, ChannelHandlerContext, ChannelInboundHandlerAdapter}
import io.netty.util.AttributeKey
import io.netty.util.concurrent.{Future, GenericFutureListener}
import org.slf4j.LoggerFactory

import rmqordered.util.Clock

/**
 * Asks `Admission` about every connection before anything is set up for it, on the thread that
 * accepts them. While too many are not set up yet, no more are accepted.
 */
final class Doorkeeper(admission: Admission, clock: Clock) extends ChannelInboundHandlerAdapter {
  import Doorkeeper._

  // Touched by the accepting thread only.
  private var refused = 0L
  private var toldAt = clock.monotonicMillis() - TellEveryMs

  override def channelRead(context: ChannelHandlerContext, message: Any): Unit = message match {
    case child: Channel =>
      child.remoteAddress() match {
        case from: InetSocketAddress => admit(context, child, from)
        // Gone before it was here.
        case _ => child.unsafe().closeForcibly()
      }
    case other =>
      val _ = context.fireChannelRead(other)
  }

  private def admit(context: ChannelHandlerContext, child: Channel, from: InetSocketAddress): Unit =
    admission.enter(from.getAddress) match {
      case Left(problem) =>
        child.unsafe().closeForcibly()
        tellRefused(from, problem)
      case Right(entry) =>
        val server = context.channel()
        val readAgain: () => Unit = () => { val _ = server.config().setAutoRead(true) }
        child.attr(Arrival).set(() => if (entry.arrived()) readAgain())
        val left: GenericFutureListener[Future[Void]] = _ => if (entry.left()) readAgain()
        child.closeFuture().addListener(left)
        if (admission.isCrowded) { val _ = server.config().setAutoRead(false) }
        // Some may have been set up between the two.
        if (!admission.isCrowded) readAgain()
        val _ = context.fireChannelRead(child)
    }

  /** One line for many: who is refused comes back at once. */
  private def tellRefused(from: InetSocketAddress, problem: String): Unit = {
    refused += 1
    val now = clock.monotonicMillis()
    if (now - toldAt >= TellEveryMs) {
      logger.warn("refusing connections: {} count={} client={}", problem, refused, from)
      toldAt = now
      refused = 0
    }
  }
}

object Doorkeeper {
  private val logger = LoggerFactory.getLogger(classOf[Doorkeeper])

  private val TellEveryMs = 1000L

  private val Arrival: AttributeKey[() => Unit] =
    AttributeKey.valueOf(classOf[Doorkeeper], "arrival")

  /** A connection is set up. */
  def arrived(channel: Channel): Unit = Option(channel.attr(Arrival).getAndSet(null)).foreach(_())
}
