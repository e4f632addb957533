package rmqordered.store

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.util.Json

/** Where a queue begins and ends: message `min` is its first, `max` will be the next. */
final case class QueuePosition(key: QueueKey, min: Long, max: Long)

/** How far the key index had come: entries in its last file. */
final case class IndexPosition(file: Long, entries: Int)

/**
 * What is known to be on disk: the commit log below `logOffset`, and the queue units and index
 * entries of every message there. Recovery reads the log from there on only; damage below it is no
 * torn write and stops the broker.
 *
 * @param storeTimestamp
 *   the newest store time given out, which must not fall
 * @param queueFileBytes
 *   the size of the queue files: with another one they are made anew
 * @param sealKey
 *   what marks the seals of the log; nothing when an older version has written this
 */
final case class Checkpoint(
    logOffset: Long,
    storeTimestamp: Long,
    queueFileBytes: Int,
    index: Option[IndexPosition],
    queues: Vector[QueuePosition],
    sealKey: Option[Int] = None
) {

  /** Says no more of the files of queues and index, which are about to be made anew. */
  def withoutFiles: Checkpoint = copy(queueFileBytes = Checkpoint.NoFiles)

  def hasFiles: Boolean = queueFileBytes != Checkpoint.NoFiles

  def encode: ObjectNode = {
    val root = Json
      .obj()
      .put("version", Checkpoint.Version)
      .put("logOffset", logOffset)
      .put("storeTimestamp", storeTimestamp)
      .put("queueFileBytes", queueFileBytes)
    index.foreach { at =>
      root.putObject("index").put("file", at.file).put("entries", at.entries)
    }
    sealKey.foreach(key => root.put("sealKey", f"$key%08x"))
    val topics = root.putObject("queues")
    queues.groupBy(_.key.topic).foreach { case (topic, positions) =>
      val node = topics.putObject(topic)
      positions.foreach(p => node.putArray(p.key.queueId.toString).add(p.min).add(p.max))
    }
    root
  }
}

object Checkpoint {
  private val Version = 1
  private val NoFiles = 0

  /** @throws StoreError when it was written by another version of this program */
  def decode(root: ObjectNode): Checkpoint = {
    val version = root.path("version").asInt()
    if (version != Version)
      throw new StoreError(s"The store's checkpoint has version $version, expected $Version.")
    Checkpoint(
      root.path("logOffset").asLong(),
      root.path("storeTimestamp").asLong(),
      root.path("queueFileBytes").asInt(),
      Option(root.get("index")).map(at =>
        IndexPosition(at.path("file").asLong(), at.path("entries").asInt())
      ),
      root.path("queues").properties().asScala.iterator.flatMap(e =>
        decodeTopic(e.getKey, e.getValue)
      ).toVector,
      Option(root.get("sealKey")).map(key => Integer.parseUnsignedInt(key.asText(), 16))
    )
  }

  private def decodeTopic(topic: String, queues: JsonNode): Iterator[QueuePosition] =
    queues.properties().asScala.iterator.map { entry =>
      val bounds = entry.getValue
      QueuePosition(
        QueueKey(topic, entry.getKey.toInt),
        bounds.path(0).asLong(),
        bounds.path(1).asLong()
      )
    }
}
