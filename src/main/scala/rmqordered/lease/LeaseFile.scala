package rmqordered.lease

import scala.jdk.CollectionConverters._

import rmqordered.model.MessageQueue
import rmqordered.util.{Json, SmallFile}

/** What outlives the process: the last epoch of a key and who had it, if it was not given back. */
final case class RecordedLease(epoch: Long, owner: Option[String], grantedAtWall: Long)

/** The leases on disk: JSON, replaced as a whole. Renewals are not recorded. */
final class LeaseFile(file: SmallFile) {

  def name: String = file.name

  def load(): Map[LeaseKey, RecordedLease] =
    // An older version would give epochs out twice, so a damaged file stops the broker.
    Json.readStrictly(file).fold(Map.empty[LeaseKey, RecordedLease]) { root =>
      root
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
          LeaseKey(node.path("group").asText(), queue) ->
            RecordedLease(node.path("epoch").asLong(), owner, node.path("grantedAt").asLong())
        }
        .toMap
    }

  /** @throws java.io.IOException when the leases may not survive; then nothing may be granted */
  def save(leases: Iterable[(LeaseKey, RecordedLease)]): Unit = {
    val root = Json.obj()
    val array = root.putArray("leases")
    leases.foreach { case (key, lease) =>
      val node = array
        .addObject()
        .put("group", key.group)
        .put("topic", key.queue.topic)
        .put("brokerName", key.queue.brokerName)
        .put("queueId", key.queue.queueId)
        .put("epoch", lease.epoch)
        .put("grantedAt", lease.grantedAtWall)
      lease.owner.foreach(owner => node.put("clientId", owner))
    }
    file.replace(Json.bytes(root))
  }
}
