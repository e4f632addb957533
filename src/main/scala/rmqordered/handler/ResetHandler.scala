package rmqordered.handler

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.node.LongNode

import rmqordered.group.{ConsumerGroups, SubscriptionGroups}
import rmqordered.lease.QueueLockManager
import rmqordered.model.{MessageQueue, QueueKey, TopicConfig}
import rmqordered.offset.{ConsumerOffsets, OffsetKey}
import rmqordered.protocol.{Body, ExtFields, RequestCode, ResponseCode}
import rmqordered.store.{MessageStore, TimeBoundary}
import rmqordered.util.Json

/** The tables a reset touches. */
final case class ResetTables(
    store: MessageStore,
    offsets: ConsumerOffsets,
    groups: SubscriptionGroups,
    consumers: ConsumerGroups[Connection],
    locks: QueueLockManager
)

/**
 * Offset resets (222): to a time, to the end, or of one queue to an offset.
 *
 * The broker resets by itself: the lease of each queue ends, so that a fenced owner has to start
 * anew, and the offset stays pending until the next pull learns of it. In RocketMQ's older way the
 * group's live consumers are told to reset instead (220), and no lease is touched.
 *
 * @param onReset
 *   wakes long polls that wait for messages behind the old offset
 */
final class ResetHandler(
    tables: ResetTables,
    identity: BrokerIdentity,
    calls: ClientCalls,
    serverSide: Boolean,
    onReset: OffsetKey => Unit
) {
  import tables._

  /** 222. */
  def reset(call: Call): Unit = {
    val (topicName, group) = (call.text("topic"), call.text("group"))
    val topic = store.topics
      .get(topicName)
      .getOrElse(throw new Refusal(ResponseCode.TopicNotExist, s"Topic $topicName does not exist"))
    if (groups.get(group).isEmpty)
      throw new Refusal(ResponseCode.SubscriptionGroupNotExist, s"Group $group does not exist")
    val table =
      if (serverSide) resetHere(call, group, topic) else resetInClients(call, group, topic)
    call.answer(Response(ResponseCode.Success, body = body(table)))
  }

  private def resetHere(
      call: Call,
      group: String,
      topic: TopicConfig
  ): Seq[(MessageQueue, Long)] = {
    val wanted = targets(call, topic)
    if (wanted.isEmpty) throw new Refusal(ResponseCode.SystemError, "No queues to reset.")
    val table = wanted.map { case (key, offset) => identity.messageQueue(key) -> offset }
    val changes = wanted.map { case (key, offset) => OffsetKey(group, key) -> offset }
    // In one step: an owner must not commit between the two, nor be granted a lease under which it
    // would take the old offset for the new one.
    locks.endEpochs(group, table.map(_._1)) {
      changes.foreach { case (key, offset) => offsets.reset(key, offset) }
    }
    changes.foreach { case (key, _) => onReset(key) }
    table
  }

  private def targets(call: Call, topic: TopicConfig): Seq[(QueueKey, Long)] = {
    val timestamp = call.long("timestamp")
    val queueId = call.optionalInt("queueId").filter(_ >= 0)
    queueId.foreach { id =>
      if (id >= topic.queueNums)
        throw Failures.invalid(
          s"queueId[$id] is illegal, topic[${topic.name}] has ${topic.queueNums} queues"
        )
    }
    val keys =
      queueId.fold(0 until topic.readQueueNums)(id => id to id).map(QueueKey(topic.name, _))
    val offset = call.optionalLong("offset").filter(offset => queueId.isDefined && offset != -1)
    keys.map(key => key -> offset.fold(offsetAt(key, timestamp))(checked(key, _)))
  }

  private def offsetAt(key: QueueKey, timestamp: Long): Long =
    if (timestamp < 0) store.maxOffset(key)
    else store.offsetByTime(key, timestamp, TimeBoundary.Lower)

  private def checked(key: QueueKey, offset: Long): Long = {
    val (min, max) = (store.minOffset(key), store.maxOffset(key))
    if (offset < min || offset > max)
      throw new Refusal(
        ResponseCode.SystemError,
        s"Target offset $offset not in consume queue range [$min-$max]"
      )
    offset
  }

  private def resetInClients(
      call: Call,
      group: String,
      topic: TopicConfig
  ): Seq[(MessageQueue, Long)] = {
    val timestamp = call.long("timestamp")
    val isForced = call.optionalFlag("isForce").getOrElse(false)
    val table = (0 until topic.writeQueueNums).map { queueId =>
      val key = QueueKey(topic.name, queueId)
      val committed = offsets
        .get(OffsetKey(group, key))
        .getOrElse(throw new Refusal(
          ResponseCode.SystemError,
          s"The consumer group <$group> not exist"
        ))
      val wanted = offsetAt(key, timestamp)
      identity.messageQueue(key) -> (if (isForced || wanted < committed) wanted else committed)
    }
    val members = consumers.view(group).fold(Vector.empty[Connection])(_.members.map(_.channel))
    if (members.isEmpty)
      throw new Refusal(
        ResponseCode.ConsumerNotOnline,
        s"Consumer not online, so can not reset offset, Group: $group Topic: ${topic.name} " +
          s"Timestamp: $timestamp"
      )
    val fields = ExtFields(
      "topic" -> topic.name,
      "group" -> group,
      "timestamp" -> timestamp.toString,
      "isForce" -> isForced.toString
    )
    members.foreach(calls.tell(_, RequestCode.ResetConsumerClientOffset, fields, body(table)))
    table
  }

  private def body(table: Seq[(MessageQueue, Long)]): Body = {
    val values = table.map { case (queue, offset) =>
      Bodies.queueEntry(queue, LongNode.valueOf(offset))
    }
    Body(Bodies.queueTableText("offsetTable", values, Json.obj()).getBytes(UTF_8))
  }
}
