package rmqordered.store

import rmqordered.model.QueueKey
import rmqordered.protocol.DecodedRecord

/**
 * Writes the damaged units of a consume queue again, from the commit log, while the broker serves.
 * Units are compared with the records that they point at; what is wrong is looked for in the log,
 * from the last good unit before it on. A message that the log has no more becomes a unit that says
 * so: size 0, at the place behind the message before it.
 *
 * One thread at a time. Readers meanwhile see a unit before, after or in the middle of its change,
 * and check what they see. Units appended since are right and not touched.
 */
final class QueueRebuild(
    log: CommitLog,
    queues: QueueTable,
    topics: TopicTable,
    faults: StoreFaults
) {
  import QueueRebuild._

  private val walk = new LogWalk(log)

  /** Rebuilds every queue that somebody has found damaged. */
  def run(): Unit = faults.damagedQueues.foreach { key =>
    faults.rebuilt(key, queues.get(key).fold(0)(rebuild(key, _)))
  }

  private def rebuild(key: QueueKey, queue: ConsumeQueue): Int = {
    val end = queue.nextOffset
    var count = 0
    var next = queue.minOffset
    while (next < end) {
      if (isRight(key, queue, next)) next += 1
      else {
        var badEnd = next + 1
        while (badEnd < end && !isRight(key, queue, badEnd)) badEnd += 1
        count += rewrite(key, queue, next, badEnd)
        next = badEnd
      }
    }
    if (count > 0) queue.force(queue.minOffset, end)
    count
  }

  private def isRight(key: QueueKey, queue: ConsumeQueue, queueOffset: Long): Boolean = {
    var isFound = false
    queue.scan(queueOffset, queueOffset + 1) { (_, commitLogOffset, size, tagsCode) =>
      isFound = log.segmentAt(commitLogOffset).exists { segment =>
        val at = (commitLogOffset - segment.baseOffset).toInt
        LogRecords.at(segment, at, commitLogOffset) match {
          case Some(record) =>
            record.size == size && record.content.tagsCode == tagsCode &&
            record.position.queueOffset == queueOffset && isOf(key, record)
          // The message may be damaged itself; that is no reason to lose sight of it.
          case None => MessageReader.isAt(segment, at, key.queueId, queueOffset, size)
        }
      }
      false
    }
    isFound
  }

  /** Writes the units from `start` to before `end`; gives how many. */
  private def rewrite(key: QueueKey, queue: ConsumeQueue, start: Long, end: Long): Int = {
    val before = if (start > queue.minOffset) queue.commitLogOffset(start - 1) else log.minOffset
    var next = start
    var place = Math.max(before, log.minOffset)
    walk.records(place) { record =>
      val at = record.position
      if (
        at.queueOffset >= next && at.queueOffset < end && at.commitLogOffset >= place &&
        isOf(key, record)
      ) {
        (next until at.queueOffset).foreach(queue.rewrite(_, place, LostSize, 0L))
        queue.rewrite(at.queueOffset, at.commitLogOffset, record.size, record.content.tagsCode)
        place = at.commitLogOffset
        next = at.queueOffset + 1
      }
      next < end
    }
    (next until end).foreach(queue.rewrite(_, place, LostSize, 0L))
    (end - start).toInt
  }

  /** Not one of an earlier topic of that name. */
  private def isOf(key: QueueKey, record: DecodedRecord): Boolean =
    record.envelope.queueId == key.queueId && record.envelope.topic == key.topic &&
      topics.isAlive(key.topic, record.position.commitLogOffset)
}

object QueueRebuild {

  /** The size in a unit whose message is lost; its place is that of the message before it. */
  val LostSize: Int = -1
}
