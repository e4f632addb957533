package rmqordered.offset

import java.io.IOException

import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.util.{Json, SmallFile}

/** Offsets by whose they are, pending resets, and what is known to be lost. */
final case class RecordedOffsets(
    offsets: Iterable[(OffsetKey, Long)],
    resets: Iterable[(OffsetKey, Long)],
    loss: Option[OffsetLoss]
) {
  def isEmpty: Boolean = offsets.isEmpty && resets.isEmpty && loss.isEmpty
}

/**
 * The offsets on disk, replaced as a whole: RocketMQ's consumerOffset.json in strict JSON,
 * `{"offsetTable":{"topic@group":{"0":42}}}`, pending resets in `resetTable` likewise, and a loss
 * in `lost`, because it lasts until somebody has said where each group goes on.
 */
final class OffsetFile(file: SmallFile) {
  import OffsetFile._

  def name: String = file.name

  /** What was recorded last; nothing when there is no file that can be read. */
  def load(): Option[RecordedOffsets] =
    try {
      val isThere = file.read().isDefined
      Json.read(file).map(decode).filter { found =>
        // The first version holds no offset. As the previous one it says nothing of what came since.
        isThere || !found.isEmpty
      }
    } catch {
      case error: IOException =>
        logger.error("the committed offsets cannot be read file={}", name, error)
        None
    }

  /** @throws java.io.IOException when the offsets may not survive */
  def save(recorded: RecordedOffsets): Unit = {
    val root = Json.obj()
    put(root.putObject("offsetTable"), recorded.offsets)
    if (recorded.resets.nonEmpty) put(root.putObject("resetTable"), recorded.resets)
    recorded.loss.foreach(loss => OffsetLoss.encode(loss, root.putObject("lost")))
    file.replace(Json.bytes(root))
  }

  private def put(target: ObjectNode, offsets: Iterable[(OffsetKey, Long)]): Unit =
    offsets.foreach { case (key, queueOffset) =>
      val queues = target.withObjectProperty(key.queue.topic + Separator + key.group)
      queues.put(key.queue.queueId.toString, queueOffset)
    }

  private def decode(root: ObjectNode): RecordedOffsets = RecordedOffsets(
    table(root, "offsetTable"),
    table(root, "resetTable"),
    Option(root.get("lost")).map(OffsetLoss.decode)
  )

  private def table(root: ObjectNode, name: String): Vector[(OffsetKey, Long)] = {
    val found = for {
      entry <- root.path(name).properties().asScala.iterator
      separator = entry.getKey.indexOf(Separator.toInt)
      if separator > 0
      queue <- entry.getValue.properties().asScala.iterator
    } yield {
      val key = QueueKey(entry.getKey.substring(0, separator), queue.getKey.toInt)
      OffsetKey(entry.getKey.substring(separator + 1), key) -> queue.getValue.asLong()
    }
    found.toVector
  }
}

object OffsetFile {
  private val logger = LoggerFactory.getLogger(classOf[OffsetFile])

  // Legal in neither a topic nor a group name.
  private val Separator = '@'
}
