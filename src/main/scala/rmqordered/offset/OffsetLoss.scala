package rmqordered.offset

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import scala.jdk.CollectionConverters._

import rmqordered.util.Json

/**
 * Offsets that were there once and are gone: whatever these groups had committed in these topics.
 * What somebody has committed or reset since then is known again, key by key.
 *
 * @param groups
 *   the groups that were known; none when their table was gone as well, so it may be any group
 * @param topics
 *   the topics that had messages
 */
final case class OffsetLoss(groups: Option[Set[String]], topics: Set[String]) {

  def concerns(key: OffsetKey): Boolean =
    topics.contains(key.queue.topic) && groups.forall(_.contains(key.group))

  /** The rest of the loss when a group is deleted with its offsets, or a topic; none, if so. */
  def withoutGroup(group: String): Option[OffsetLoss] = rest(groups.map(_ - group), topics)
  def withoutTopic(topic: String): Option[OffsetLoss] = rest(groups, topics - topic)

  private def rest(groups: Option[Set[String]], topics: Set[String]): Option[OffsetLoss] =
    Option.unless(topics.isEmpty || groups.exists(_.isEmpty))(OffsetLoss(groups, topics))
}

object OffsetLoss {

  def encode(loss: OffsetLoss, target: ObjectNode): Unit = {
    loss.groups.foreach(groups => target.set[JsonNode]("groups", Json.texts(groups.toSeq.sorted)))
    val _ = target.set[JsonNode]("topics", Json.texts(loss.topics.toSeq.sorted))
  }

  def decode(node: JsonNode): OffsetLoss =
    OffsetLoss(Option(node.get("groups")).map(texts), texts(node.path("topics")))

  private def texts(node: JsonNode): Set[String] = node.elements().asScala.map(_.asText()).toSet
}

/** Nobody knows any more where a group goes on. The message names the ways out. */
final class OffsetsLost(val key: OffsetKey, file: String)
    extends Exception(
      s"Where group ${key.group} goes on in queue ${key.queue} is not known: the committed offsets " +
        s"are lost ($file was missing or damaged). Set the group's offsets (mqadmin " +
        s"resetOffsetByTime -g ${key.group} -t ${key.queue.topic} -s TIMESTAMP, or commit an " +
        "offset), or stop the broker, put the file back from a backup, or write {} into it to let " +
        "every group begin again, and start it.",
      null,
      false,
      false
    )
