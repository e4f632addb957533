package rmqordered.net

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import rmqordered.protocol.RemotingCommand

/**
 * The requests of one connection that were read and not answered yet: how many, and how large. They
 * count in the memory of all connections too. Thread-safe.
 */
final class InFlight(maxRequests: Int, maxBytes: Int, memory: RequestMemory) {
  private val requests = new AtomicInteger()
  private val bytes = new AtomicLong()

  /** @return whether the request may be served; if not it must be answered all the same */
  def begin(command: RemotingCommand): Boolean = {
    val cost = InFlight.cost(command)
    bytes.addAndGet(cost)
    memory.hold(cost)
    requests.incrementAndGet() <= maxRequests
  }

  /** @return whether this made room where there was none */
  def end(command: RemotingCommand): Boolean = {
    requests.decrementAndGet()
    val cost = InFlight.cost(command)
    free(cost)
  }

  /** A request that waits and needs less of itself from now on. */
  def shrink(before: RemotingCommand, after: RemotingCommand): Boolean =
    free(InFlight.cost(before) - InFlight.cost(after))

  private def free(cost: Long): Boolean = {
    val left = bytes.addAndGet(-cost)
    memory.release(cost)
    left < maxBytes && left + cost >= maxBytes
  }

  def isEmpty: Boolean = requests.get() == 0

  def isFull: Boolean = bytes.get() >= maxBytes
}

object InFlight {

  // A command without fields and body, its call and what a handler keeps for it.
  private val BaseBytes = 512L

  def cost(command: RemotingCommand): Long = {
    val fields = command.extFields.fold(0L)(_.toSeq.foldLeft(0L) { case (sum, (key, value)) =>
      sum + key.length + value.length
    })
    BaseBytes + fields + command.remark.fold(0)(_.length) + command.body.heldBytes
  }
}
