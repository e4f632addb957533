package rmqordered.net

import java.net.InetSocketAddress
import java.util

import io.netty.channel.{ChannelHandlerContext, SimpleChannelInboundHandler}
import io.netty.handler.codec.DecoderException
import io.netty.handler.timeout.IdleStateEvent
import org.slf4j.LoggerFactory

import rmqordered.handler.Connection
import rmqordered.model.HostAddress
import rmqordered.protocol.RemotingCommand

/** What happens on connections, for whoever serves them. */
trait ConnectionListener {
  def received(command: RemotingCommand, connection: Connection): Unit
  def disconnected(connection: Connection): Unit
}

/**
 * One client's socket. Requests are served in order of arrival as long as the client reads its
 * answers; above the high-water mark no more is read from it and what was read already waits here.
 *
 * `waiting` is touched by the connection's own thread only.
 */
final class ClientConnection(listener: ConnectionListener)
    extends SimpleChannelInboundHandler[RemotingCommand](classOf[RemotingCommand])
    with Connection {
  import ClientConnection._

  @volatile private var context: ChannelHandlerContext = _
  @volatile private var remoteHost: HostAddress = _
  private val waiting = new util.ArrayDeque[() => Unit]()

  override def remote: HostAddress = remoteHost

  override def send(command: RemotingCommand): Unit = {
    // A failed write means the client is gone, which channelInactive tells.
    val _ = context.writeAndFlush(command)
  }

  override def whenWritable(task: () => Unit): Unit = {
    val executor = context.executor()
    if (executor.inEventLoop()) runOrWait(task)
    else
      try executor.execute(() => runOrWait(task))
      catch {
        // The network threads have stopped, and the connection with them.
        case _: util.concurrent.RejectedExecutionException => ()
      }
  }

  override def close(): Unit = {
    val _ = context.close()
  }

  override def channelActive(ctx: ChannelHandlerContext): Unit = {
    context = ctx
    remoteHost = HostAddress.of(ctx.channel().remoteAddress().asInstanceOf[InetSocketAddress])
    logger.debug("= connected client={}", remoteHost)
    val _ = ctx.fireChannelActive()
  }

  override def channelRead0(ctx: ChannelHandlerContext, command: RemotingCommand): Unit =
    runOrWait(() => listener.received(command, this))

  private def runOrWait(task: () => Unit): Unit =
    if (waiting.isEmpty && context.channel().isWritable) task()
    else waiting.addLast(task)

  override def channelWritabilityChanged(ctx: ChannelHandlerContext): Unit = {
    val isWritable = ctx.channel().isWritable
    ctx.channel().config().setAutoRead(isWritable)
    // Not run here: this may be called from within a write of one of these very tasks.
    if (isWritable && !waiting.isEmpty) ctx.executor().execute(() => runWaiting())
    val _ = ctx.fireChannelWritabilityChanged()
  }

  private def runWaiting(): Unit =
    while (!waiting.isEmpty && context.channel().isWritable) waiting.pollFirst().apply()

  override def channelInactive(ctx: ChannelHandlerContext): Unit = {
    logger.debug("= disconnected client={}", remoteHost)
    waiting.clear()
    if (remoteHost != null) listener.disconnected(this)
    val _ = ctx.fireChannelInactive()
  }

  override def userEventTriggered(ctx: ChannelHandlerContext, event: AnyRef): Unit = event match {
    case _: IdleStateEvent =>
      logger.info("closing an idle connection client={}", remoteHost)
      val _ = ctx.close()
    case _ =>
      val _ = ctx.fireUserEventTriggered(event)
  }

  override def exceptionCaught(ctx: ChannelHandlerContext, error: Throwable): Unit = {
    error match {
      case bad: DecoderException =>
        logger.warn(
          "closing a connection after bytes that are no request client={} problem={}",
          remoteHost,
          rootOf(bad).getMessage
        )
      case lost: java.io.IOException =>
        logger.debug("connection lost client={} problem={}", remoteHost, lost.getMessage)
      case other => logger.warn("closing a connection after an error client={}", remoteHost, other)
    }
    val _ = ctx.close()
  }

  private def rootOf(error: Throwable): Throwable = Option(error.getCause).getOrElse(error)
}

object ClientConnection {
  private val logger = LoggerFactory.getLogger(classOf[ClientConnection])
}
