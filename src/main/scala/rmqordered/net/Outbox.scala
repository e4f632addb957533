package rmqordered.net

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{ConcurrentLinkedQueue, RejectedExecutionException}

import io.netty.channel.{ChannelFutureListener, ChannelHandlerContext}

import rmqordered.protocol.RemotingCommand

/**
 * The way out of one connection. Every flush is a call of the system, which costs more than most
 * requests: so short answers given while the connection serves what it has read leave together when
 * that is done, and so do those that other threads give before its own thread comes to them.
 *
 * An answer with a body leaves at once, with all before it: somebody waits for those messages while
 * the requests behind are served, and no more of them gathers here than the buffer takes.
 *
 * Thread-safe, except for `readBegins` and `readEnds`, which belong to the connection's thread.
 */
final class Outbox(context: ChannelHandlerContext) {
  import Outbox._

  private val fromOthers = new ConcurrentLinkedQueue[Outgoing]()
  private val isScheduled = new AtomicBoolean(false)
  private var isReading = false
  private var unflushed = 0

  /** Requests are being served; `readEnds` will follow. */
  def readBegins(): Unit = isReading = true

  /** All that was read is served, as far as it can be now. */
  def readEnds(): Unit = {
    isReading = false
    if (unflushed > 0) flush()
  }

  /** A failed write means the client is gone, which the events of the channel tell. */
  def send(command: RemotingCommand, taken: Option[() => Unit] = None): Unit =
    if (context.executor().inEventLoop()) {
      write(Outgoing(command, taken))
      if (!isReading || !command.body.isEmpty || unflushed >= MaxTogether) flush()
    } else {
      fromOthers.add(Outgoing(command, taken))
      if (isScheduled.compareAndSet(false, true)) schedule()
    }

  private def schedule(): Unit =
    try context.executor().execute(() => drain())
    catch {
      // The network threads have stopped, and the connection with them.
      case _: RejectedExecutionException => ()
    }

  private def drain(): Unit = {
    // Before the first look: who comes after the last one schedules another turn.
    isScheduled.set(false)
    Iterator.continually(fromOthers.poll()).takeWhile(_ != null).foreach(write)
    if (unflushed > 0) flush()
  }

  private def write(outgoing: Outgoing): Unit = {
    unflushed += 1
    val written = context.write(outgoing.command)
    outgoing.taken.foreach { taken =>
      val told: ChannelFutureListener = _ => taken()
      written.addListener(told)
    }
  }

  private def flush(): Unit = {
    unflushed = 0
    val _ = context.flush()
  }
}

object Outbox {
  private final case class Outgoing(command: RemotingCommand, taken: Option[() => Unit])

  // The first answer of a long read waits for this many requests, less than a millisecond; most of
  // what a flush costs is saved by then.
  val MaxTogether = 64
}
