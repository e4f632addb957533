package rmqordered.handler

import java.util
import java.util.concurrent.{Executor, RejectedExecutionException}

/** Runs tasks for connections, each connection's in their order. */
trait ConnectionExecutor {

  /** @throws java.util.concurrent.RejectedExecutionException when too many wait already */
  def execute(connection: Connection, task: Runnable): Unit
}

/**
 * Shares one thread among connections: after a task of one comes a task of the next that has some.
 * A connection with thousands of requests thus delays another one's by one request of its own, and
 * fills only its own part of the room. Thread-safe.
 *
 * @param thread
 *   runs what it is given one after another, and takes all of it
 */
final class FairWorker(thread: Executor, maxWaiting: Int, maxPerConnection: Int)
    extends ConnectionExecutor {
  // In the order of their turns.
  private val lines = new util.LinkedHashMap[Connection, util.ArrayDeque[Runnable]]()
  private var waiting = 0

  override def execute(connection: Connection, task: Runnable): Unit = {
    synchronized {
      val line = lines.get(connection)
      if (waiting >= maxWaiting || line != null && line.size() >= maxPerConnection)
        throw new RejectedExecutionException("too many requests wait for the worker")
      add(connection, task)
    }
    start(connection)
  }

  /** Behind all that waits of a connection, and never refused for want of room. */
  def executeLast(connection: Connection, task: Runnable): Unit = {
    synchronized(add(connection, task))
    start(connection)
  }

  def size: Int = synchronized(waiting)

  private def add(connection: Connection, task: Runnable): Unit = {
    lines.computeIfAbsent(connection, _ => new util.ArrayDeque[Runnable]()).addLast(task)
    waiting += 1
  }

  // One for each task; which task it runs is decided when its time has come.
  private def start(connection: Connection): Unit =
    try thread.execute(() => next().run())
    catch {
      case stopped: RejectedExecutionException =>
        synchronized {
          // The thread has stopped for good: whatever waits here is not done any more.
          Option(lines.remove(connection)).foreach(line => waiting -= line.size())
        }
        throw stopped
    }

  private def next(): Runnable = synchronized {
    val first = lines.entrySet().iterator().next()
    val (connection, line) = (first.getKey, first.getValue)
    lines.remove(connection)
    val task = line.pollFirst()
    waiting -= 1
    if (!line.isEmpty) lines.put(connection, line)
    task
  }
}
