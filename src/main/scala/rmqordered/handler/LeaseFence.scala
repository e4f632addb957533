package rmqordered.handler

import rmqordered.lease.QueueLockManager
import rmqordered.model.QueueKey

/**
 * Keeps whoever lost a queue away from it: a request that carries a lease epoch is served only
 * while exactly that epoch is live. Requests without one are RocketMQ's and pass.
 */
final class LeaseFence(locks: QueueLockManager, identity: BrokerIdentity) {

  /** Runs the action under the fence; a takeover waits until it is done. */
  def under[T](group: String, queue: QueueKey, epoch: Long)(action: => T): T =
    locks.ifCurrent(group, identity.messageQueue(queue), epoch)(action) match {
      case Right(result) => result
      case Left(stale) => throw Failures.staleEpoch(group, queue, epoch, stale)
    }

  /** Lets a call pass if it carries no epoch or the live one. */
  def ensure(call: Call, group: String, queue: QueueKey): Unit =
    epochOf(call).foreach(epoch => under(group, queue, epoch)(()))

  def epochOf(call: Call): Option[Long] = call.optionalLong(LeaseFence.EpochField)
}

object LeaseFence {
  val EpochField = "leaseEpoch"
}
