package rmqordered.group

import com.fasterxml.jackson.databind.node.ObjectNode

import scala.jdk.CollectionConverters._

import rmqordered.util.{Json, SmallFile}

/**
 * How a group's members get a topic's messages when the broker assigns the queues.
 *
 * @param sharedQueues
 *   how many further members' queues each member pops; 0 or less: everybody pops all
 */
final case class RequestMode(isPop: Boolean, sharedQueues: Int) {
  def name: String = if (isPop) RequestMode.Pop else RequestMode.Pull
}

object RequestMode {
  val Pop = "POP"
  val Pull = "PULL"

  /** What holds for a group nobody decided about. */
  val default: RequestMode = RequestMode(isPop = false, 0)
}

/** The modes that were set. A change is on disk before it is visible. Thread-safe. */
final class RequestModes(file: SmallFile) {
  @volatile private var modes: Map[(String, String), RequestMode] =
    Json.read(file).fold(Map.empty[(String, String), RequestMode])(load)

  def of(topic: String, group: String): RequestMode =
    modes.getOrElse((topic, group), RequestMode.default)

  def put(topic: String, group: String, mode: RequestMode): Unit = synchronized {
    val changed = modes.updated((topic, group), mode)
    file.replace(Json.bytes(encode(changed)))
    modes = changed
  }

  private def encode(all: Map[(String, String), RequestMode]): ObjectNode = {
    val root = Json.obj()
    val array = root.putArray("modes")
    all.foreach { case ((topic, group), mode) =>
      array
        .addObject()
        .put("topic", topic)
        .put("group", group)
        .put("mode", mode.name)
        .put("popShareQueueNum", mode.sharedQueues)
    }
    root
  }

  private def load(root: ObjectNode): Map[(String, String), RequestMode] =
    root
      .path("modes")
      .elements()
      .asScala
      .map { node =>
        (node.path("topic").asText(), node.path("group").asText()) ->
          RequestMode(
            node.path("mode").asText() == RequestMode.Pop,
            node.path("popShareQueueNum").asInt()
          )
      }
      .toMap
}
