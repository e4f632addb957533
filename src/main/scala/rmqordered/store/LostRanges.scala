package rmqordered.store

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.util.Json

/**
 * Bytes of the commit log that an operator has given up: damaged, kept beside the log, and passed
 * over from now on.
 *
 * @param ends
 *   queues that had messages up to there, as far as their units still tell
 */
final case class LostRange(from: Long, to: Long, ends: Map[QueueKey, Long])

/** The table of lost ranges, written by a repair and read at each start. */
object LostRanges {
  private val Table = "lostRanges"

  def read(directory: DataDirectory): Vector[LostRange] =
    Json.read(directory.table(Table)).toVector.flatMap { root =>
      root.path("ranges").elements().asScala.map { node =>
        val ends = for {
          topic <- node.path("ends").properties().asScala
          queue <- topic.getValue.properties().asScala
        } yield QueueKey(topic.getKey, queue.getKey.toInt) -> queue.getValue.asLong()
        LostRange(node.path("from").asLong(), node.path("to").asLong(), ends.toMap)
      }
    }

  def write(directory: DataDirectory, ranges: Vector[LostRange]): Unit = {
    val root = Json.obj()
    val array = root.putArray("ranges")
    ranges.sortBy(_.from).foreach { range =>
      val ends = array.addObject().put("from", range.from).put("to", range.to).putObject("ends")
      range.ends.foreach { case (key, end) =>
        ends.withObjectProperty(key.topic).put(key.queueId.toString, end)
      }
    }
    directory.table(Table).replace(Json.bytes(root))
  }
}
