package rmqordered.offset

import java.io.IOException
import java.util.concurrent.ConcurrentHashMap

import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.util.{Json, SmallFile}

/** Whose offset of which queue. */
final case class OffsetKey(group: String, queue: QueueKey)

/** The answer to a commit that must not go back. */
sealed trait CommitOutcome

object CommitOutcome {
  case object Committed extends CommitOutcome
  final case class WentBack(committed: Long) extends CommitOutcome
}

/**
 * How far each consumer group has come in each queue. Kept in memory and written behind: commits
 * that came under a lease within a fraction of a second, plain ones every few seconds as RocketMQ
 * does. A crash loses at most that much progress, which means repetition, never a gap.
 *
 * A reset offset is pending until a pull takes it: meanwhile it is what the group has, and plain
 * commits of consumers that do not know of it yet are ignored.
 *
 * Thread-safe. The file is RocketMQ's consumerOffset.json in strict JSON:
 * `{"offsetTable":{"topic@group":{"0":42}}}`, and pending resets in `resetTable` likewise.
 */
final class ConsumerOffsets(file: SmallFile) {
  import ConsumerOffsets._

  private val table = new ConcurrentHashMap[OffsetKey, java.lang.Long](load("offsetTable").asJava)
  private val resets = new ConcurrentHashMap[OffsetKey, java.lang.Long](load("resetTable").asJava)
  @volatile private var changed = false
  @volatile private var fencedChanged = false

  def get(key: OffsetKey): Option[Long] =
    Option(resets.get(key)).orElse(Option(table.get(key))).map(_.longValue)

  /** Commits any offset, lower ones too: consumers of RocketMQ may seek back. */
  def commit(key: OffsetKey, queueOffset: Long): Unit =
    if (!resets.containsKey(key)) {
      table.put(key, queueOffset)
      changed = true
    }

  /** Sets an offset over the heads of the group's consumers. */
  def reset(key: OffsetKey, queueOffset: Long): Unit = {
    resets.put(key, queueOffset)
    table.put(key, queueOffset)
    changed = true
    // An administrator's word is kept as carefully as a fenced commit.
    fencedChanged = true
  }

  /** The pending reset, which is pending no more. */
  def takeReset(key: OffsetKey): Option[Long] = {
    val taken = Option(resets.remove(key)).map(_.longValue)
    if (taken.isDefined) changed = true
    taken
  }

  /**
   * Commits an offset that must not be below the last one. It came under a lease granted since any
   * reset, so the owner started from that: nothing is pending any more.
   */
  def commitForward(key: OffsetKey, queueOffset: Long): CommitOutcome = {
    val _ = takeReset(key)
    val now = table.merge(key, queueOffset, (old, wanted) => Math.max(old, wanted))
    if (now > queueOffset) CommitOutcome.WentBack(now)
    else {
      changed = true
      fencedChanged = true
      CommitOutcome.Committed
    }
  }

  def topicsOf(group: String): Set[String] = keys.filter(_.group == group).map(_.queue.topic).toSet

  def groupsOf(topic: String): Set[String] = keys.filter(_.queue.topic == topic).map(_.group).toSet

  def removeGroup(group: String): Unit = remove(_.group == group)

  def removeTopic(topic: String): Unit = remove(_.queue.topic == topic)

  /** Writes what changed since the last write. */
  def flush(): Unit = synchronized {
    if (changed) {
      changed = false
      fencedChanged = false
      try file.replace(encode())
      catch {
        case error: IOException =>
          changed = true
          logger.error("the committed offsets could not be written file={}", file.name, error)
      }
    }
  }

  /** Writes only if a fenced commit waits. */
  def flushFenced(): Unit = if (fencedChanged) flush()

  private def remove(matches: OffsetKey => Boolean): Unit = {
    table.keySet().removeIf(key => matches(key))
    resets.keySet().removeIf(key => matches(key))
    changed = true
  }

  private def keys: Iterator[OffsetKey] = table.keySet().iterator().asScala

  private def encode(): Array[Byte] = {
    val root = Json.obj()
    put(root.putObject("offsetTable"), table)
    if (!resets.isEmpty) put(root.putObject("resetTable"), resets)
    Json.bytes(root)
  }

  private def put(target: ObjectNode, offsets: ConcurrentHashMap[OffsetKey, java.lang.Long]): Unit =
    offsets.forEach { (key, queueOffset) =>
      val queues = target.withObjectProperty(key.queue.topic + Separator + key.group)
      val _ = queues.put(key.queue.queueId.toString, queueOffset.longValue)
    }

  /**
   * Takes back offsets beyond the end of their queues, pending resets too: with asynchronous flush
   * a power failure may have taken messages that were consumed already, and others will get those
   * offsets. Written at once, before those are there: a second failure must not bring the old
   * offsets back.
   */
  def clampTo(maxOffset: QueueKey => Long): Unit = {
    clamp(table, maxOffset)
    clamp(resets, maxOffset)
    flush()
  }

  private def clamp(
      offsets: ConcurrentHashMap[OffsetKey, java.lang.Long],
      maxOffset: QueueKey => Long
  ): Unit =
    offsets.forEach { (key, committed) =>
      val end = maxOffset(key.queue)
      if (committed > end) {
        logger.warn(
          "a committed offset is beyond its queue topic={} queue={} offset={} end={} group={}",
          key.queue.topic,
          key.queue.queueId,
          committed,
          end,
          key.group
        )
        offsets.put(key, end)
        changed = true
      }
    }

  // Without offsets groups repeat messages; that is better than a broker that does not start.
  private def readRoot(): Option[ObjectNode] =
    try Json.read(file)
    catch {
      case error: IOException =>
        logger.error("the committed offsets are lost, groups start anew file={}", file.name, error)
        None
    }

  private def load(name: String): Map[OffsetKey, java.lang.Long] = {
    val loaded = for {
      root <- readRoot().iterator
      entry <- root.path(name).properties().asScala.iterator
      separator = entry.getKey.indexOf(Separator.toInt)
      if separator > 0
      queue <- entry.getValue.properties().asScala.iterator
    } yield {
      val key = QueueKey(entry.getKey.substring(0, separator), queue.getKey.toInt)
      OffsetKey(entry.getKey.substring(separator + 1), key) ->
        java.lang.Long.valueOf(queue.getValue.asLong())
    }
    loaded.toMap
  }
}

object ConsumerOffsets {
  private val logger = LoggerFactory.getLogger(classOf[ConsumerOffsets])

  // Legal in neither a topic nor a group name.
  private val Separator = '@'
}
