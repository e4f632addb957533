package rmqordered.lease

import scala.jdk.CollectionConverters._

import rmqordered.model.MessageQueue
import rmqordered.util.{Json, SmallFile}

/** All leases in one JSON file, as versions before the journal kept them: read, never written. */
final class LeaseFile(file: SmallFile) {

  /** What was recorded last, or nothing when the file is not there. */
  def load(): Option[RecordedLeases] =
    // Its previous version would give epochs out twice, so a damaged file stops the broker.
    Json.readStrictly(file).map { root =>
      val savedAt = root.path("savedAt").asLong()
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
            node.path("ended").asBoolean(),
            savedAt
          )
        }
        .toMap
      RecordedLeases(leases, root.path("floor").asLong())
    }

  /** What is in it is elsewhere now. */
  def remove(): Unit = file.remove()
}
