package rmqordered.offset

import scala.collection.mutable
import scala.util.Random

import rmqordered.Proves._
import rmqordered.model.QueueKey
import rmqordered.util.{ManualClock, MemoryFile}

/**
 * The offsets against a naive model: random commits, resets, pulls that take them, removals,
 * flushes by a clock that jumps, disk failures, restarts, and power failures that take the ends of
 * queues. A failing seed is printed.
 */
class ConsumerOffsetsModelSuite extends munit.FunSuite {
  private val keys = for (group <- Vector("g", "h"); topic <- Vector("t", "u"); queue <- 0 to 1)
    yield OffsetKey(group, QueueKey(topic, queue))

  /** What the offsets should be, and what of it is on disk. */
  private final class Model {
    val committed = mutable.Map.empty[OffsetKey, Long]
    val pending = mutable.Map.empty[OffsetKey, Long]
    private var onDisk = (Map.empty[OffsetKey, Long], Map.empty[OffsetKey, Long])

    def get(key: OffsetKey): Option[Long] = pending.get(key).orElse(committed.get(key))

    def commit(key: OffsetKey, offset: Long): Unit =
      if (!pending.contains(key)) committed(key) = offset

    def commitForward(key: OffsetKey, offset: Long): Boolean = {
      pending.remove(key)
      val isForward = committed.get(key).forall(_ <= offset)
      if (isForward) committed(key) = offset
      isForward
    }

    def reset(key: OffsetKey, offset: Long): Unit = {
      pending(key) = offset
      committed(key) = offset
    }

    def remove(matches: OffsetKey => Boolean): Unit = keys.filter(matches).foreach { key =>
      committed.remove(key)
      pending.remove(key)
    }

    def flush(): Unit = onDisk = (committed.toMap, pending.toMap)

    /** What the queues do not hold any more is taken back for good. */
    def clamp(end: QueueKey => Long): Unit = {
      Seq(committed, pending).foreach(_.mapValuesInPlace((key, at) => Math.min(at, end(key.queue))))
      flush()
    }

    def crash(): Unit = {
      committed.clear()
      committed ++= onDisk._1
      pending.clear()
      pending ++= onDisk._2
    }
  }

  private def run(seed: Int): Unit = {
    val random = new Random(seed)
    val clock = new ManualClock()
    val file = new MemoryFile()
    var offsets = new ConsumerOffsets(file)
    val model = new Model
    var flushedAt = 0L
    (1 to 400).foreach { step =>
      val clue = s"seed $seed, step $step"
      val key = keys(random.nextInt(keys.length))
      val offset = random.nextInt(50).toLong
      random.nextInt(13) match {
        case 0 =>
          offsets.reset(key, offset)
          model.reset(key, offset)
        case 1 => assertEquals(offsets.takeReset(key), model.pending.remove(key), clue)
        case 2 | 3 | 4 =>
          val isCommitted = offsets.commitForward(key, offset) == CommitOutcome.Committed
          assertEquals(isCommitted, model.commitForward(key, offset), clue)
        case 5 if random.nextInt(5) == 0 =>
          offsets.removeGroup(key.group)
          model.remove(_.group == key.group)
        case 6 if random.nextInt(5) == 0 =>
          offsets.removeTopic(key.queue.topic)
          model.remove(_.queue.topic == key.queue.topic)
        case 7 => if (random.nextBoolean()) clock.advance(random.nextInt(9000).toLong)
          else clock.setBack(5000)
        case 8 =>
          offsets = new ConsumerOffsets(file)
          model.crash()
        case 9 =>
          // Other messages get those offsets, and may be lost in their turn.
          val ends = keys.map(_.queue -> random.nextInt(60).toLong).toMap
          offsets = new ConsumerOffsets(file)
          model.crash()
          offsets.clampTo(ends)
          model.clamp(ends)
        case _ =>
          offsets.commit(key, offset)
          model.commit(key, offset)
      }
      // As the timer does: by elapsed time, which a clock that is set does not touch.
      if (clock.monotonicMillis() - flushedAt >= 5000) {
        flushedAt = clock.monotonicMillis()
        file.isBroken = random.nextInt(4) == 0
        offsets.flush()
        if (!file.isBroken) model.flush()
        file.isBroken = false
      }
      keys.foreach(key => assertEquals(offsets.get(key), model.get(key), clue))
      val topics =
        (model.committed.keySet ++ model.pending.keySet).filter(_.group == "g").map(_.queue.topic)
      assertEquals(offsets.topicsOf("g"), topics.toSet, clue)
    }
  }

  test("the offsets are what a naive model says, whatever happens".proves(
    "acked-survives-power-failure",
    "lease-commit-never-back"
  )) {
    (1 to 60).foreach(run)
  }
}
