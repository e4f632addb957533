package rmqordered.net

import java.net.InetAddress

import scala.collection.mutable

/**
 * Which connections are let in: so many in all, so many of one address, and so many at once that
 * nobody has looked at yet. Who comes from this machine has no limit of its own, as here one
 * address is many clients. Thread-safe.
 *
 * @param maxArriving
 *   connections that were let in and are not set up yet, above which no more are taken: each has a
 *   descriptor, and whether it was reset is seen only then
 */
final class Admission(maxConnections: Int, maxPerAddress: Int, maxArriving: Int) {
  private val byAddress = mutable.HashMap.empty[InetAddress, Int]
  private var open = 0
  private var arriving = 0

  /** Takes a connection in, or says why not. Who is in has to be set up or to leave. */
  def enter(address: InetAddress): Either[String, Entry] = synchronized {
    val alike = byAddress.getOrElse(address, 0)
    if (open >= maxConnections) Left(s"$open are open, as many as maxConnections allows")
    else if (alike >= maxPerAddress && !address.isLoopbackAddress)
      Left(s"$alike of its address are open, as many as maxConnectionsPerAddress allows")
    else {
      open += 1
      arriving += 1
      byAddress(address) = alike + 1
      Right(new Entry(address))
    }
  }

  /** Whether those that have come should be set up before more are taken. */
  def isCrowded: Boolean = synchronized(arriving >= maxArriving)

  def openConnections: Int = synchronized(open)

  /** One connection's part. */
  final class Entry(address: InetAddress) {
    private var hasArrived = false
    private var hasLeft = false

    /** It is set up. True if there is room for more to come since. */
    def arrived(): Boolean = Admission.this.synchronized {
      val isFirst = !hasArrived
      hasArrived = true
      if (isFirst) arriving -= 1
      isFirst && arriving < maxArriving
    }

    /** It is closed, be it set up or not. True if there is room for more to come since. */
    def left(): Boolean = Admission.this.synchronized {
      if (!hasLeft) {
        hasLeft = true
        open -= 1
        byAddress.updateWith(address)(_.map(_ - 1).filter(_ > 0))
      }
      arrived()
    }
  }
}

object Admission {

  /** Set up within milliseconds; what comes meanwhile waits in the system's queue. */
  val MaxArriving = 128

  /** @param perAddress as it was set; 0 means half of all */
  def of(maxConnections: Int, perAddress: Int): Admission = new Admission(
    maxConnections,
    if (perAddress > 0) perAddress else Math.max(maxConnections / 2, 1),
    MaxArriving
  )
}
