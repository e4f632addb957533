package rmqordered.offset

import java.io.IOException
import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.config.LimitSettings
import rmqordered.model.QueueKey
import rmqordered.util.{Cost, RememberedTable, SmallFile, TableFull}

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
 * The file is written at the first start already. Where there were messages before, a missing one
 * is a loss: the broker serves, but who asks for an offset that may have been there gets an error,
 * for "no offset" would let the group begin again, or skip what it had not read.
 *
 * Thread-safe.
 *
 * @param isFirstStart
 *   whether there is nothing yet that an offset could be lost of
 * @param everything
 *   what a loss concerns: the groups and topics that are known
 */
final class ConsumerOffsets(
    smallFile: SmallFile,
    memory: RememberedTable = new RememberedTable("offsets", LimitSettings.default.offsetBytes),
    isFirstStart: Boolean = true,
    everything: => OffsetLoss = OffsetLoss(None, Set.empty)
) {
  import ConsumerOffsets._

  private val file = new OffsetFile(smallFile)
  private val recorded = file.load()
  private val table = concurrent(recorded.fold(nothing)(_.offsets))
  private val resets = concurrent(recorded.fold(nothing)(_.resets))
  @volatile private var loss: Option[OffsetLoss] =
    recorded.fold(Option.unless(isFirstStart)(everything))(_.loss)
  @volatile private var changed = recorded.isEmpty
  @volatile private var fencedChanged = false
  if (recorded.isEmpty && isLost)
    logger.error(
      "the committed offsets are lost; groups that ask for theirs get an error file={}",
      file.name
    )
  else if (isLost)
    logger.error("committed offsets were lost earlier and not all are set again file={}", file.name)

  /** Whether there are offsets that were lost. */
  def isLost: Boolean = loss.isDefined

  /**
   * The offset a group has, if it ever had one.
   *
   * @throws OffsetsLost
   *   when it may have had one that is lost
   */
  def get(key: OffsetKey): Option[Long] = {
    val found = Option(resets.get(key)).orElse(Option(table.get(key))).map(_.longValue)
    if (found.isEmpty && loss.exists(_.concerns(key))) throw new OffsetsLost(key, file.name)
    found
  }

  memory.keep((table.size() + resets.size()) * Entry.bytes)

  /**
   * Commits any offset, lower ones too: consumers of RocketMQ may seek back.
   *
   * @throws rmqordered.util.TableFull
   *   when no more can be remembered
   */
  def commit(key: OffsetKey, queueOffset: Long): Unit =
    if (!resets.containsKey(key)) {
      put(table, key, queueOffset)
      changed = true
    }

  /** The same for an offset that comes beside something else, which goes on without it. */
  def commitIfRoom(key: OffsetKey, queueOffset: Long): Unit =
    ifRoom(key)(commit(key, queueOffset))

  private def isFirst(key: OffsetKey, queueOffset: Long): Boolean = !table.containsKey(key) && {
    memory.take(Entry)
    val isAdded = table.putIfAbsent(key, queueOffset) == null
    if (!isAdded) memory.give(Entry)
    isAdded
  }

  /**
   * Takes room for an offset before it is there: of two that bring the same one, one is counted.
   */
  private def put(target: OffsetTable, key: OffsetKey, queueOffset: Long): Unit = {
    val isNew = !target.containsKey(key)
    if (isNew) memory.take(Entry)
    val before = target.put(key, queueOffset)
    if (isNew && before != null) memory.give(Entry)
    else if (!isNew && before == null) memory.keep(Entry.bytes)
  }

  /** Sets an offset over the heads of the group's consumers. */
  def reset(key: OffsetKey, queueOffset: Long): Unit = {
    put(table, key, queueOffset)
    put(resets, key, queueOffset)
    changed = true
    // An administrator's word is kept as carefully as a fenced commit.
    fencedChanged = true
  }

  /** The pending reset, which is pending no more. */
  def takeReset(key: OffsetKey): Option[Long] = {
    val taken = Option(resets.remove(key)).map(_.longValue)
    if (taken.isDefined) {
      memory.give(Entry)
      changed = true
    }
    taken
  }

  /**
   * Commits an offset that must not be below the last one. It came under a lease granted since any
   * reset, so the owner started from that: nothing is pending any more.
   */
  def commitForward(key: OffsetKey, queueOffset: Long): CommitOutcome = {
    val _ = takeReset(key)
    val now = if (isFirst(key, queueOffset)) queueOffset
    else
      table.merge(key, queueOffset, (old, wanted) => Math.max(old, wanted)).longValue
    if (now > queueOffset) CommitOutcome.WentBack(now)
    else {
      changed = true
      fencedChanged = true
      CommitOutcome.Committed
    }
  }

  /** The same for an offset that comes beside something else, which goes on without it. */
  def commitForwardIfRoom(key: OffsetKey, queueOffset: Long): Unit =
    ifRoom(key) { val _ = commitForward(key, queueOffset) }

  private def ifRoom(key: OffsetKey)(action: => Unit): Unit =
    try action
    catch {
      case full: TableFull =>
        logger.warn("an offset is not kept: {} group={}", full.getMessage, key.group)
    }

  def topicsOf(group: String): Set[String] = keys.filter(_.group == group).map(_.queue.topic).toSet

  def groupsOf(topic: String): Set[String] = keys.filter(_.queue.topic == topic).map(_.group).toSet

  def removeGroup(group: String): Unit = {
    loss = loss.flatMap(_.withoutGroup(group))
    remove(_.group == group)
  }

  def removeTopic(topic: String): Unit = {
    loss = loss.flatMap(_.withoutTopic(topic))
    remove(_.queue.topic == topic)
  }

  /** Writes what changed since the last write. */
  def flush(): Unit = synchronized {
    if (changed) {
      changed = false
      fencedChanged = false
      try file.save(RecordedOffsets(values(table), values(resets), loss))
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
    Seq(table, resets).foreach { offsets =>
      offsets.keySet().forEach { key =>
        if (matches(key) && offsets.remove(key) != null) memory.give(Entry)
      }
    }
    changed = true
  }

  private def keys: Iterator[OffsetKey] = table.keySet().iterator().asScala

  private def values(offsets: OffsetTable): Iterable[(OffsetKey, Long)] =
    offsets.asScala.view.mapValues(_.longValue)

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
      offsets: OffsetTable,
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
}

object ConsumerOffsets {
  // Names are shared: those that are committed for are of a group and a topic that exist.
  private val Entry = Cost(RememberedTable.EntryBytes, Nil)
  private val logger = LoggerFactory.getLogger(classOf[ConsumerOffsets])

  private type OffsetTable = ConcurrentHashMap[OffsetKey, java.lang.Long]
  private val nothing = Iterable.empty[(OffsetKey, Long)]

  private def concurrent(offsets: Iterable[(OffsetKey, Long)]): OffsetTable = {
    val made = new OffsetTable()
    offsets.foreach { case (key, queueOffset) => made.put(key, queueOffset) }
    made
  }
}
