package rmqordered.net

import java.util
import java.util.concurrent.{ConcurrentHashMap, RejectedExecutionException, TimeUnit}

import io.netty.util.concurrent.EventExecutor

import rmqordered.util.Clock

/** Somebody with more to do than one turn. */
trait TurnTaker {

  /** Works for about a turn; whether there is more to do. */
  def takeTurn(): Boolean
}

/**
 * The connections of one network thread that have more to do than a turn, served one after another.
 * Between two turns the thread looks at all its sockets: who has asked for little waits for one
 * turn of somebody else, however many have asked for much. For that thread only.
 *
 * @param later
 *   runs a task of this thread after it has looked at its sockets
 */
final class LoopTurns(later: Runnable => Unit, val clock: Clock) {
  private val waiting = new util.ArrayDeque[TurnTaker]()
  private var isScheduled = false
  private val takeTurns: Runnable = () => run()

  def enter(taker: TurnTaker): Unit = {
    waiting.addLast(taker)
    schedule()
  }

  private def run(): Unit = {
    isScheduled = false
    val begun = clock.monotonicNanos()
    do {
      val taker = waiting.pollFirst()
      if (taker.takeTurn()) waiting.addLast(taker)
    } while (!waiting.isEmpty && clock.monotonicNanos() - begun < LoopTurns.TurnNanos)
    schedule()
  }

  private def schedule(): Unit =
    if (!isScheduled && !waiting.isEmpty) {
      isScheduled = true
      later(takeTurns)
    }
}

object LoopTurns {

  /** How long one of them keeps the others waiting; a request that is begun is ended. */
  val TurnNanos: Long = 5000000L

  /** The turns of each thread, made when they are first asked for. */
  def perThread(clock: Clock): EventExecutor => LoopTurns = {
    val found = new ConcurrentHashMap[EventExecutor, LoopTurns]()
    executor => found.computeIfAbsent(executor, own => new LoopTurns(after(own, _), clock))
  }

  // A task that is only submitted would run before the sockets are looked at; one that is due does
  // not.
  private def after(executor: EventExecutor, task: Runnable): Unit =
    try { val _ = executor.schedule(task, 0L, TimeUnit.NANOSECONDS) }
    catch {
      // The network threads have stopped, and the connections with them.
      case _: RejectedExecutionException => ()
    }
}
