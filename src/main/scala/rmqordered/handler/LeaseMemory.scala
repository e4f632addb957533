package rmqordered.handler

import rmqordered.lease.{LeaseKey, LockOutcome, QueueLockManager}
import rmqordered.model.MessageQueue
import rmqordered.util.{Clock, RememberedTable}

/**
 * How much memory the queue leases take, about. Above the bound nobody gets a queue that it has not
 * got already: a renewal is never refused for want of memory.
 *
 * Measured at most once a second; what is asked for in between is added to it. Thread-safe.
 */
final class LeaseMemory(locks: QueueLockManager, clock: Clock, val maxBytes: Long) {
  import LeaseMemory._

  private var measuredAt = Long.MinValue
  private var measured = 0L

  def bytes: Long = synchronized {
    val now = clock.monotonicMillis()
    if (measuredAt == Long.MinValue || now - measuredAt >= MeasureMs) {
      measured = locks.snapshot().leases.iterator.map { case (key, lease) =>
        cost(key, lease.clientId)
      }.sum
      measuredAt = now
    }
    measured
  }

  /** Asks for queues as far as there is memory; what is not asked for is refused. */
  def tryLock(
      group: String,
      clientId: String,
      queues: Seq[MessageQueue]
  ): Map[MessageQueue, LockOutcome] = {
    val wanted = queues.map(queue => cost(LeaseKey(group, queue), clientId)).sum
    if (bytes + wanted <= maxBytes) {
      synchronized(measured += wanted)
      locks.tryLock(group, clientId, queues)
    } else {
      val known = locks.snapshot().leases.iterator.map(_._1).toSet
      val (held, fresh) = queues.partition(queue => known(LeaseKey(group, queue)))
      val reason = s"the leases take as much memory as they may, $maxBytes bytes"
      locks.tryLock(group, clientId, held) ++ fresh.map(_ -> LockOutcome.Refused(reason))
    }
  }
}

object LeaseMemory {
  private val MeasureMs = 1000L

  private def cost(key: LeaseKey, clientId: String): Long = {
    val names = Seq(key.group, key.queue.topic, key.queue.brokerName, clientId)
    2 * RememberedTable.EntryBytes + 2L * names.map(_.length).sum
  }
}
