package rmqordered.lease

import org.slf4j.LoggerFactory

/** One change of a queue's owner. */
final case class OwnershipEvent(
    atWall: Long,
    key: LeaseKey,
    previousOwner: Option[String],
    owner: Option[String],
    epoch: Long,
    reason: OwnershipEvent.Reason
)

object OwnershipEvent {
  sealed abstract class Reason(val text: String)
  case object Granted extends Reason("granted")
  case object TakeoverAfterExpiry extends Reason("takeover-after-expiry")
  case object Unlocked extends Reason("unlocked")
  case object Reset extends Reason("reset")
  case object Deleted extends Reason("deleted")
}

/** The last changes of ownership, oldest first. Bounded. Not thread-safe: its owner guards it. */
final class OwnershipHistory(capacity: Int) {
  private val events = new java.util.ArrayDeque[OwnershipEvent]()

  def add(event: OwnershipEvent): Unit = {
    if (events.size() == capacity) events.removeFirst()
    events.addLast(event)
  }

  def toVector: Vector[OwnershipEvent] = {
    val copy = Vector.newBuilder[OwnershipEvent]
    events.forEach(event => copy += event)
    copy.result()
  }
}

object OwnershipHistory {
  private val logger = LoggerFactory.getLogger(classOf[OwnershipHistory])

  /** Days of ordinary hand-overs in a few megabytes. */
  val DefaultCapacity = 10000

  /** Not under a lock that others wait for: the log is a file, too. */
  def log(event: OwnershipEvent): Unit = {
    val queue = event.key.queue
    logger.info(
      "queue owner changed topic={} queue={} group={} client={} previous={} epoch={} reason={}",
      queue.topic,
      queue.queueId,
      event.key.group,
      event.owner.getOrElse("-"),
      event.previousOwner.getOrElse("-"),
      event.epoch,
      event.reason.text
    )
  }
}
