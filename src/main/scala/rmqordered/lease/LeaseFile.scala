package rmqordered.lease

import scala.jdk.CollectionConverters._

import rmqordered.model.MessageQueue
import rmqordered.util.{Json, SmallFile}

/**
 * What outlives the process: the last epoch of a key and who had it, if it was not given back.
 *
 * @param expiresAtWall
 *   when the lease would end, as far as was known when this was recorded
 * @param isEnded
 *   it was known to have ended
 */
final case class RecordedLease(
    epoch: Long,
    owner: Option[String],
    grantedAtWall: Long,
    expiresAtWall: Long,
    isEnded: Boolean
)

/**
 * All leases as they are recorded.
 *
 * @param floor
 *   no key that is not among them was ever given a higher epoch
 * @param savedAtWall
 *   when this was recorded
 */
final case class RecordedLeases(
    leases: Iterable[(LeaseKey, RecordedLease)],
    floor: Long,
    savedAtWall: Long
)

/** The leases on disk: JSON, replaced as a whole. */
final class LeaseFile(file: SmallFile) {

  def name: String = file.name

  /** What was recorded last, or nothing when the file is not there. */
  def load(): Option[RecordedLeases] =
    // An older version would give epochs out twice, so a damaged file stops the broker.
    Json.readStrictly(file).map { root =>
      val leases = root
        .path("leases")
        .elements()
        .asScala
        .map { node =>
          val queue = MessageQueue(
            node.path("topic").asText(),
            node.path("brokerName").asText(),
            node.path("queueId").asInt()
          )
          val owner = Option(node.get("clientId")).filterNot(_.isNull).map(_.asText())
          LeaseKey(node.path("group").asText(), queue) -> RecordedLease(
            node.path("epoch").asLong(),
            owner,
            node.path("grantedAt").asLong(),
            node.path("expiresAt").asLong(),
            node.path("ended").asBoolean()
          )
        }
        .toVector
      RecordedLeases(leases, root.path("floor").asLong(), root.path("savedAt").asLong())
    }

  /** @throws java.io.IOException when the leases may not survive; then nothing may be granted */
  def save(recorded: RecordedLeases): Unit = {
    val root = Json.obj().put("floor", recorded.floor).put("savedAt", recorded.savedAtWall)
    val array = root.putArray("leases")
    recorded.leases.foreach { case (key, lease) =>
      val node = array
        .addObject()
        .put("group", key.group)
        .put("topic", key.queue.topic)
        .put("brokerName", key.queue.brokerName)
        .put("queueId", key.queue.queueId)
        .put("epoch", lease.epoch)
      lease.owner.foreach { owner =>
        node.put("clientId", owner).put("grantedAt", lease.grantedAtWall)
        if (lease.isEnded) node.put("ended", true) else node.put("expiresAt", lease.expiresAtWall)
      }
    }
    file.replace(Json.bytes(root))
  }
}
