package rmqordered.net

import java.net.InetSocketAddress
import java.util

import io.netty.channel.socket.ChannelOutputShutdownEvent
import io.netty.channel.{
  ChannelHandlerContext,
  SimpleChannelInboundHandler
}
import io.netty.handler.codec.DecoderException
import io.netty.handler.timeout.IdleStateEvent
import io.netty.util.concurrent.EventExecutor
import org.slf4j.LoggerFactory

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.handler.Connection
import rmqordered.protocol.RemotingCommand
import rmqordered.util.Survive

/** What happens on connections, for whoever serves them. */
trait ConnectionListener {
  def received(command: RemotingCommand, connection: Connection): Unit

  /** A request too many of one connection; it must be answered. */
  def overloaded(command: RemotingCommand, connection: Connection): Unit
  def disconnected(connection: Connection): Unit
}

/**
 * What one connection may cost.
 *
 * @param maxUnsentBytes
 *   answers that the client does not take, above which it is given up: what is sent without being
 *   asked for (news about groups) does not wait for it to read
 */
final case class ConnectionLimits(maxRequests: Int, maxBytes: Int, maxUnsentBytes: Long)

object ConnectionLimits {
  def of(config: BrokerConfig): ConnectionLimits = ConnectionLimits(
    config(Settings.maxInFlightRequests),
    config(Settings.maxInFlightBytes),
    // An answer of any size may come on top of a buffer that is not full yet, but not twice.
    2L * (config(Settings.writeBufferHighWaterMark) + config(Settings.maxFrameBytes))
  )
}

/**
 * One client's socket. Requests are served in order of arrival as long as the client reads its
 * answers; above the high-water mark no more is read from it and what was read already waits here.
 * Nor is more read while too many bytes of its requests wait for an answer.
 *
 * What a client sent before it left counts, like the offsets a consumer commits on its way out. A
 * client that leaves with an answer unread resets the connection; what it sent before that is still
 * in the system's buffer. So an answer that cannot be written ends the answers and not the reading,
 * which goes on to the end of the stream (`ClosesOnWriteError`), and nothing waits for a client
 * that takes no more answers.
 *
 * A connection that takes much of its thread's time is served in turns with the others
 * (`LoopTurns`), also when it has left: what it sent before waits for its turns like that of
 * others, and only then it is said to be gone.
 *
 * `waiting` and what says whether it waits for a turn are touched by the connection's own thread
 * only.
 */
final class ClientConnection(
    listener: ConnectionListener,
    limits: ConnectionLimits,
    memory: RequestMemory,
    turnsOf: EventExecutor => LoopTurns
) extends SimpleChannelInboundHandler[RemotingCommand](classOf[RemotingCommand])
    with Connection
    with TurnTaker {
  import ClientConnection._

  @volatile private var context: ChannelHandlerContext = _
  @volatile private var outbox: Outbox = _
  @volatile private var socket: InetSocketAddress = _
  @volatile private var takesAnswers = true
  private val waiting = new util.ArrayDeque[() => Unit]()
  private var turns: LoopTurns = _
  private var share: TurnShare = _
  private var awaitsTurn = false
  private var hasLeft = false
  // Who never said anything is known to nobody.
  private var hasSpoken = false
  private val inFlight = new InFlight(limits.maxRequests, limits.maxBytes, memory)
  // A frame waits for room; set and read by the connection's own thread.
  private var wantsRoom = false
  // Not read from because all connections together hold too much, and this one has a part in it.
  @volatile private var isHeldBack = false
  private val readAgain: Runnable = () => onEventLoop(() => updateReading())

  override def remoteSocket: InetSocketAddress = socket

  /** For a client that is gone an answer is not even encoded: there may be many, and large. */
  override def send(command: RemotingCommand): Unit = {
    val _ = trySend(command, None)
  }

  override def sendThen(command: RemotingCommand, taken: () => Unit): Unit =
    if (!trySend(command, Some(taken))) taken()

  /** Whether the command is on its way. */
  private def trySend(command: RemotingCommand, taken: Option[() => Unit]): Boolean = {
    val channel = context.channel()
    // A channel without a way out says that it will never be writable; hence the second look.
    def hasNoRoom = channel.bytesBeforeWritable() > limits.maxUnsentBytes
    if (!takesAnswers || !channel.isActive) false
    else if (hasNoRoom && channel.isActive && takesAnswers) {
      giveUp()
      false
    } else {
      outbox.send(command, taken)
      true
    }
  }

  private def giveUp(): Unit = {
    logger.warn("closing a connection that does not read client={}", socket)
    close()
  }

  override def finished(command: RemotingCommand): Unit =
    if (inFlight.end(command) || isHeldBack) readAgain.run()

  override def shrunk(before: RemotingCommand, after: RemotingCommand): Unit =
    if (inFlight.shrink(before, after)) readAgain.run()

  private def updateReading(): Unit = {
    isHeldBack = memory.isFull && !inFlight.isEmpty && context.channel().isActive
    val isRead =
      canBeAnswered && !inFlight.isFull && !isHeldBack && !wantsRoom && !isBehind
    context.channel().config().setAutoRead(isRead)
    if (isHeldBack) memory.whenRoom(readAgain)
  }

  /** Enough was read for several turns. */
  private def isBehind: Boolean = waiting.size() >= MaxBehind

  /** True also where answers go nowhere. */
  private def canBeAnswered: Boolean = !takesAnswers || context.channel().isWritable

  override def whenWritable(task: () => Unit): Unit = onEventLoop(() => runOrWait(task))

  override def inNextTurn(task: () => Unit): Unit = onEventLoop(() => await(task))

  override def goOn(task: () => Unit): Unit = onEventLoop { () =>
    waiting.addFirst(task)
    awaitTurn()
  }

  private def onEventLoop(task: Runnable): Unit = {
    val executor = context.executor()
    if (executor.inEventLoop()) task.run()
    else
      try executor.execute(task)
      catch {
        // The network threads have stopped, and the connection with them.
        case _: util.concurrent.RejectedExecutionException => ()
      }
  }

  override def close(): Unit = {
    // What was answered before is on its way.
    val _ = context.flush().close()
  }

  override def channelActive(ctx: ChannelHandlerContext): Unit = {
    context = ctx
    outbox = new Outbox(ctx)
    turns = turnsOf(ctx.executor())
    share = new TurnShare(turns.clock)
    ctx.channel().remoteAddress() match {
      case address: InetSocketAddress =>
        socket = address
        logger.debug("= connected client={}", socket)
        val _ = ctx.fireChannelActive()
      // Gone before it was here.
      case _ =>
        val _ = ctx.close()
    }
  }

  override def channelRead0(ctx: ChannelHandlerContext, command: RemotingCommand): Unit = {
    outbox.readBegins()
    hasSpoken = true
    if (!command.isResponse) {
      val isAllowed = inFlight.begin(command)
      if (inFlight.isFull || memory.isFull) updateReading()
      runOrWait { () =>
        if (isAllowed) listener.received(command, this) else listener.overloaded(command, this)
      }
    } else listener.received(command, this)
  }

  override def channelReadComplete(ctx: ChannelHandlerContext): Unit = {
    outbox.readEnds()
    val _ = ctx.fireChannelReadComplete()
  }

  private def runOrWait(task: () => Unit): Unit =
    if (waiting.isEmpty && canBeServed && !share.owesTurn) share.spend(task())
    else await(task)

  private def await(task: () => Unit): Unit = {
    waiting.addLast(task)
    if (waiting.size() == MaxBehind) updateReading()
    awaitTurn()
  }

  private def canBeServed: Boolean =
    !takesAnswers || !context.channel().isActive || context.channel().isWritable

  private def awaitTurn(): Unit =
    if (!awaitsTurn && !waiting.isEmpty && canBeServed) {
      awaitsTurn = true
      turns.enter(this)
    }

  override def takeTurn(): Boolean = {
    outbox.readBegins()
    serveTurn()
    outbox.readEnds()
    awaitsTurn = !waiting.isEmpty && canBeServed
    if (!isBehind) updateReading()
    endIfLeft()
    awaitsTurn
  }

  private def serveTurn(): Unit = {
    val begun = turns.clock.monotonicNanos()
    def isOver = turns.clock.monotonicNanos() - begun >= LoopTurns.TurnNanos
    while (!waiting.isEmpty && canBeServed && !isOver) runFirst()
  }

  override def channelWritabilityChanged(ctx: ChannelHandlerContext): Unit = {
    val isWritable = ctx.channel().isWritable
    updateReading()
    // Not run here: this may be called from within a write of one of these very tasks.
    if (isWritable) awaitTurn()
    val _ = ctx.fireChannelWritabilityChanged()
  }

  private def runFirst(): Unit = {
    val task = waiting.pollFirst()
    Survive(logger, "a request that waited for its turn")(share.spend(task()))
  }

  override def channelInactive(ctx: ChannelHandlerContext): Unit = {
    logger.debug("= disconnected client={}", socket)
    memory.forget(readAgain)
    hasLeft = hasSpoken
    if (!waiting.isEmpty && !share.owesTurn) serveTurn()
    awaitTurn()
    endIfLeft()
    val _ = ctx.fireChannelInactive()
  }

  /** What waits for its client to read, or for its turn, may be in the way of this. */
  private def endIfLeft(): Unit =
    if (hasLeft && waiting.isEmpty) {
      hasLeft = false
      listener.disconnected(this)
    }

  override def userEventTriggered(ctx: ChannelHandlerContext, event: AnyRef): Unit = event match {
    case _: ChannelOutputShutdownEvent =>
      logger.debug("= takes no more answers client={}", socket)
      takesAnswers = false
      updateReading()
      // Not run here: this is called from within a write, perhaps of one of these very tasks.
      awaitTurn()
    case FrameDecoder.RoomWanted =>
      wantsRoom = true
      updateReading()
    case FrameDecoder.RoomFound =>
      wantsRoom = false
      updateReading()
    case _: IdleStateEvent =>
      logger.info("closing an idle connection client={}", socket)
      val _ = ctx.close()
    case _ =>
      val _ = ctx.fireUserEventTriggered(event)
  }

  override def exceptionCaught(ctx: ChannelHandlerContext, error: Throwable): Unit = {
    error match {
      case bad: DecoderException =>
        logger.warn(
          "closing a connection after bytes that are no request client={} problem={}",
          socket,
          rootOf(bad).getMessage
        )
      case lost: java.io.IOException =>
        logger.debug("connection lost client={} problem={}", socket, lost.getMessage)
      case other => logger.warn("closing a connection after an error client={}", socket, other)
    }
    // What came before the bytes that are no request has its answer.
    outbox.readEnds()
    val _ = ctx.close()
  }

  private def rootOf(error: Throwable): Throwable = Option(error.getCause).getOrElse(error)
}

object ClientConnection {

  /** Netty's default, true, throws away what a client sent before it left without reading. */
  val ClosesOnWriteError = false

  // Requests of one connection that wait for their turn before it is not read from.
  private val MaxBehind = 64

  private val logger = LoggerFactory.getLogger(classOf[ClientConnection])
}
