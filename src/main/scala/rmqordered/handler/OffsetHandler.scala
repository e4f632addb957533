package rmqordered.handler

import rmqordered.group.SubscriptionGroups
import rmqordered.model.QueueKey
import rmqordered.offset.{CommitOutcome, ConsumerOffsets, OffsetKey}
import rmqordered.store.{MessageStore, TimeBoundary}

/** Offsets: of groups, of queues, by time. */
final class OffsetHandler(
    store: MessageStore,
    offsets: ConsumerOffsets,
    groups: SubscriptionGroups,
    fence: LeaseFence
) {

  /** 14. */
  def query(call: Call): Unit = {
    val queue = queueOf(call)
    val committed = offsets.get(OffsetKey(call.text("consumerGroup"), queue))
    val found = committed.orElse {
      // RocketMQ's ConsumerManageProcessor: a group new to a young queue starts at its beginning.
      val zeroAllowed = call.optionalFlag("setZeroIfNotFound").getOrElse(true)
      val isYoung = store.minOffset(queue) == 0 && store.maxOffset(queue) > 0
      Option.when(zeroAllowed && isYoung)(0L)
    }
    call.answer(
      offset(
        found.getOrElse(throw Failures.notFound("Not found, maybe this group consumer boot first"))
      )
    )
  }

  /**
   *   15. With a lease epoch the commit is fenced and never goes back; without, it is ignored while
   *       a reset is pending, and answered all the same.
   */
  def update(call: Call): Unit = {
    val queue = queueOf(call)
    val group = call.text("consumerGroup")
    val committed = call.long("commitOffset")
    val config = groups.get(group).getOrElse(throw Failures.groupNotExist(group))
    val topic = store.topics.get(queue.topic).getOrElse(throw Failures.topicNotExist(queue.topic))
    if (queue.queueId < 0 || queue.queueId >= topic.queueNums)
      throw Failures.invalid(
        s"queueId[${queue.queueId}] is illegal, topic[${topic.name}] has ${topic.queueNums} queues"
      )
    if (committed < 0)
      throw Failures.invalid(s"commitOffset must not be negative, found $committed.")
    // The names of the tables: what is kept for long shares them.
    val key = OffsetKey(config.name, QueueKey(topic.name, queue.queueId))
    fence.epochOf(call) match {
      case None => offsets.commit(key, committed)
      case Some(epoch) => commitFenced(key, epoch, committed)
    }
    call.answer(Response.ok)
  }

  private def commitFenced(key: OffsetKey, epoch: Long, committed: Long): Unit =
    fence.under(key.group, key.queue, epoch)(offsets.commitForward(key, committed)) match {
      case CommitOutcome.Committed => ()
      case CommitOutcome.WentBack(before) =>
        throw Failures.offsetWentBack(key.group, key.queue, committed, before)
    }

  /** 30. */
  def max(call: Call): Unit = call.answer(offset(store.maxOffset(queueOf(call))))

  /** 31. */
  def min(call: Call): Unit = call.answer(offset(store.minOffset(queueOf(call))))

  /** 29. */
  def byTimestamp(call: Call): Unit = {
    val boundary =
      if (call.optional("boundaryType").exists(_.equalsIgnoreCase("upper"))) TimeBoundary.Upper
      else TimeBoundary.Lower
    call.answer(offset(store.offsetByTime(queueOf(call), call.long("timestamp"), boundary)))
  }

  /** 32. */
  def earliestStoreTime(call: Call): Unit = {
    val queue = queueOf(call)
    val timestamp = store.storeTimestamp(queue, store.minOffset(queue)).getOrElse(-1L)
    call.answer(Response.fields("timestamp" -> timestamp.toString))
  }

  private def queueOf(call: Call): QueueKey = QueueKey(call.text("topic"), call.int("queueId"))

  private def offset(value: Long): Response = Response.fields("offset" -> value.toString)
}
