package rmqordered.util

import java.util.concurrent.{Executor, Executors, TimeUnit}

/** One daemon thread that runs its tasks one at a time, in order. */
final class OwnThread(name: String) extends Executor {
  private val executor = Executors.newSingleThreadExecutor { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }

  /** @throws java.util.concurrent.RejectedExecutionException after `close` */
  override def execute(task: Runnable): Unit = executor.execute(task)

  /** Runs what was given before, for a while at most, and takes nothing more. */
  def close(): Unit = {
    executor.shutdown()
    val _ = executor.awaitTermination(OwnThread.StopMs, TimeUnit.MILLISECONDS)
  }
}

object OwnThread {
  private val StopMs = 5000L
}
