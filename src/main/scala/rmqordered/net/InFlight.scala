package rmqordered.net

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import rmqordered.protocol.RemotingCommand

/**
 * The requests of one connection that were read and not answered yet: how many, and how large.
 * Thread-safe.
 */
final class InFlight(maxRequests: Int, maxBytes: Int) {
  private val requests = new AtomicInteger()
  private val bytes = new AtomicLong()

  /** @return whether the request may be served; if not it must be answered all the same */
  def begin(command: RemotingCommand): Boolean = {
    bytes.addAndGet(InFlight.cost(command))
    requests.incrementAndGet() <= maxRequests
  }

  /** @return whether this made room where there was none */
  def end(command: RemotingCommand): Boolean = {
    requests.decrementAndGet()
    val cost = InFlight.cost(command)
    val left = bytes.addAndGet(-cost)
    left < maxBytes && left + cost >= maxBytes
  }

  def isFull: Boolean = bytes.get() >= maxBytes
}

object InFlight {

  // A command without fields and body, its call and what a handler keeps for it.
  private val BaseBytes = 512L

  def cost(command: RemotingCommand): Long = {
    val fields = command.extFields.fold(0L)(_.toSeq.foldLeft(0L) { case (sum, (key, value)) =>
      sum + key.length + value.length
    })
    BaseBytes + fields + command.body.length
  }
}
