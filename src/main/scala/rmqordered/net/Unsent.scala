package rmqordered.net

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

/**
 * The answers that all connections together have not taken yet. One connection is limited by its
 * own buffer; many that do not read would fill the memory all the same, and then nobody could be
 * answered. From a quarter of the limit on it is crowded, and connections get one answer at a time.
 * Above the limit one of those that hold at least half of an equal part is given up: the one that
 * took nothing for the longest time. Half, because whoever has just come with the largest answer
 * may be the only one with a whole part, and would be closed each time that it comes back.
 *
 * No clock: what counts is who took something before whom. Thread-safe.
 */
final class Unsent(maxBytes: Long) {
  import Unsent._

  private val total = new AtomicLong()
  private val turns = new AtomicLong()
  private val waiting = ConcurrentHashMap.newKeySet[Share]()

  /** One connection's part. */
  final class Share(giveUp: () => Unit) {
    @volatile private[Unsent] var bytes = 0L
    private var isGivenUp = false
    @volatile private[Unsent] var lastTurn = 0L

    def sending(amount: Long): Unit = {
      synchronized {
        if (!isGivenUp) {
          if (bytes == 0) {
            lastTurn = turns.incrementAndGet()
            waiting.add(this)
          }
          bytes += amount
          total.addAndGet(amount)
        }
      }
      if (total.get() > maxBytes) giveUpSlowest()
    }

    def isEmpty: Boolean = bytes == 0

    /** Taken by the client, or lost with its connection. */
    def ended(amount: Long): Unit = synchronized {
      if (!isGivenUp) {
        bytes -= amount
        total.addAndGet(-amount)
        lastTurn = turns.incrementAndGet()
        if (bytes == 0) { val _ = waiting.remove(this) }
      }
    }

    /** Its bytes count no more: they go with the connection, which is about to be closed. */
    private[Unsent] def abandon(): Unit = {
      val isFirst = synchronized {
        val isFirst = !isGivenUp
        isGivenUp = true
        waiting.remove(this)
        if (isFirst) total.addAndGet(-bytes)
        isFirst
      }
      if (isFirst) giveUp()
    }
  }

  def totalBytes: Long = total.get()

  def isCrowded: Boolean = total.get() > maxBytes / CrowdedPart

  private def giveUpSlowest(): Unit = {
    val shares = waiting.asScala.toVector
    val part = shares.iterator.map(_.bytes).sum / Math.max(shares.length, 1)
    shares.filter(_.bytes >= part / 2).minByOption(_.lastTurn).foreach(_.abandon())
  }
}

object Unsent {

  // The rest is for the one answer that each connection may have when it is crowded.
  private val CrowdedPart = 4
}
