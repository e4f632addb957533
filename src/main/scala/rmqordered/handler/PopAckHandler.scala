package rmqordered.handler

import java.util.{Base64, BitSet}

import com.fasterxml.jackson.databind.JsonNode

import scala.jdk.CollectionConverters._
import scala.util.Try

import rmqordered.model.{Names, QueueKey}
import rmqordered.offset.{ConsumerOffsets, OffsetKey}
import rmqordered.pop.{CheckPointId, OrderedAck, PopTable}
import rmqordered.protocol.ResponseCode
import rmqordered.store.MessageStore
import rmqordered.util.Clock

/**
 * What becomes of popped messages: acknowledged (200051, 200151), or hidden for another time
 * (200053). A handle that means nothing any more is answered as in RocketMQ, with success, and
 * changes nothing.
 */
final class PopAckHandler(
    store: MessageStore,
    offsets: ConsumerOffsets,
    pops: PopTable,
    parked: ParkedPops,
    clock: Clock
) {
  import PopAckHandler._

  /** 200051. */
  def ack(call: Call): Unit = {
    val (key, offset) = target(call)
    val max = store.maxOffset(key.queue)
    if (offset < store.minOffset(key.queue) || offset > max)
      throw new Refusal(
        ResponseCode.NoMessage,
        s"offset is illegal, key:${key.queue.topic}@${key.queue.queueId}, commit:$offset, " +
          s"store:${store.minOffset(key.queue)}~$max"
      )
    ensureAccepting()
    val handle = PopHandle.of(call.text("extraInfo"), key.queue, offset)
    if (handle.isOrderly) ackInOrder(key, Seq(offset), handle.id.popTime)(finished(call))
    else acknowledge(key, handle.id, Seq(offset))(finished(call))
  }

  /** 200151. */
  def ackBatch(call: Call): Unit = {
    val entries =
      if (call.command.body.isEmpty) Seq.empty
      else call.jsonBody.path("acks").elements().asScala.toSeq
    if (entries.isEmpty) throw new Refusal(ResponseCode.NoMessage, "The batch has no acks.")
    ensureAccepting()
    val acks = entries.map(entry)
    val answer = new Countdown(acks.length, finished(call))
    acks.foreach { ack =>
      if (ack.isOrderly) ackInOrder(ack.key, ack.offsets, ack.id.popTime)(_ => answer.one(None))
      else acknowledge(ack.key, ack.id, ack.offsets)(answer.one)
    }
  }

  private def entry(node: JsonNode): BatchEntry = {
    val (group, topic) = (node.path("c").asText(), node.path("t").asText())
    val name = node.path("r").asText("0") match {
      case "1" => Names.popRetryTopic(group, topic)
      case "2" => Names.popRetryTopicV2(group, topic)
      case _ => topic
    }
    val start = node.path("so").asLong()
    val bits = Try(BitSet.valueOf(Base64.getDecoder.decode(node.path("b").asText()))).getOrElse {
      throw Failures.badBody("the bit set b is not base64")
    }
    val offsets = bits.stream().limit(MaxBatchBits).mapToObj(bit => start + bit.toLong)
    BatchEntry(
      OffsetKey(group, QueueKey(name, node.path("q").asInt())),
      CheckPointId(start, node.path("pt").asLong()),
      offsets.iterator().asScala.map(_.longValue).toVector,
      node.path("rq").asInt() == PopReply.OrderlyQueue
    )
  }

  /** 200053. */
  def changeInvisibleTime(call: Call): Unit = {
    val (key, offset) = target(call)
    if (offset < store.minOffset(key.queue) || offset >= store.maxOffset(key.queue))
      throw new Refusal(ResponseCode.NoMessage, s"queue ${key.queue} has no message $offset")
    val handle = PopHandle.of(call.text("extraInfo"), key.queue, offset)
    val millis = call.long("invisibleTime")
    PopRequests.ensureInvisibleTime(millis)
    ensureAccepting()
    if (handle.isOrderly) changeInOrder(call, key, handle, offset, millis)
    else {
      val now = clock.wallMillis()
      pops.under(key) { queue =>
        val change =
          if (queue.isReturning(handle.id)) None
          else queue.state.change(handle.id, offset, now, millis)
        change match {
          case None => call.answer(changed(now, millis, handle.reviveQueue))
          case Some(record) =>
            queue.record(record) {
              case None =>
                call.answer(changed(record.to.id.popTime, millis, handle.reviveQueue))
              case Some(problem) => call.fail(Failures.unavailable(problem))
            }
        }
      }
    }
  }

  private def changeInOrder(
      call: Call,
      key: OffsetKey,
      handle: PopHandle,
      offset: Long,
      millis: Long
  ): Unit = {
    val now = clock.wallMillis()
    val popTime = handle.id.popTime
    pops.under(key) { queue =>
      queue.state.changeOrdered(offset, popTime, now, millis) match {
        case None => call.answer(changed(popTime, now + millis - popTime, handle.reviveQueue))
        case Some(record) =>
          queue.record(record) {
            case None =>
              call.answer(changed(popTime, now + millis - popTime, handle.reviveQueue))
            case Some(problem) => call.fail(Failures.unavailable(problem))
          }
      }
    }
    // The queue may be free earlier than those who wait for it believe.
    parked.arrived(key.queue.topic, Some(key.group))
  }

  private def changed(popTime: Long, invisibleMs: Long, reviveQueue: Int): Response =
    Response.fields(
      "popTime" -> popTime.toString,
      "invisibleTime" -> invisibleMs.toString,
      "reviveQid" -> reviveQueue.toString
    )

  private def acknowledge(key: OffsetKey, id: CheckPointId, acked: Iterable[Long])(
      done: Option[Throwable] => Unit
  ): Unit =
    if (pops.state(key).isEmpty) done(None)
    else
      pops.under(key) { queue =>
        val change = if (queue.isReturning(id)) None else queue.state.ack(id, acked)
        change match {
          case None => done(None)
          case Some(record) =>
            queue.record(record)(problem => done(problem.map(Failures.unavailable)))
        }
      }

  private def ackInOrder(key: OffsetKey, acked: Seq[Long], popTime: Long)(
      done: Option[Throwable] => Unit
  ): Unit = {
    if (pops.state(key).isEmpty) done(Some(unknown(key, acked.headOption.getOrElse(-1L))))
    else {
      val answer = new Countdown(acked.length, done)
      pops.under(key) { queue =>
        acked.foreach { offset =>
          queue.state.ackOrdered(offset, popTime) match {
            case OrderedAck.Ignored => answer.one(None)
            case OrderedAck.Unknown => answer.one(Some(unknown(key, offset)))
            case OrderedAck.Settled(record) =>
              offsets.commitIfRoom(key, record.next)
              queue.record(record)(problem => answer.one(problem.map(Failures.unavailable)))
          }
        }
      }
      parked.arrived(key.queue.topic, Some(key.group))
    }
  }

  private def unknown(key: OffsetKey, offset: Long): Refusal =
    Failures.illegalMessage(
      s"offset is illegal, key:${key.queue.topic}@${key.group}@${key.queue.queueId}, commit:$offset"
    )

  private def finished(call: Call)(problem: Option[Throwable]): Unit =
    problem.fold(call.answer(Response.ok))(call.fail)

  private def target(call: Call): (OffsetKey, Long) = {
    val (name, queueId) = (call.text("topic"), call.int("queueId"))
    val topic = store.topics.get(name).getOrElse(throw Failures.topicNotExist(name))
    if (queueId < 0 || queueId >= topic.readQueueNums)
      throw Failures.illegalMessage(
        s"queueId[$queueId] is illegal, topic:[$name] " +
          s"topicConfig.readQueueNums:[${topic.readQueueNums}]"
      )
    (OffsetKey(call.text("consumerGroup"), QueueKey(name, queueId)), call.long("offset"))
  }

  private def ensureAccepting(): Unit =
    if (!store.isAccepting)
      throw Failures.unavailable("the commit log takes no records of acknowledgements")
}

object PopAckHandler {

  // A check point has few messages, but a filter may have left out many between them.
  private val MaxBatchBits = 100000L

  private final case class BatchEntry(
      key: OffsetKey,
      id: CheckPointId,
      offsets: Vector[Long],
      isOrderly: Boolean
  )

  /** Says once, when all have reported, whether one of them failed. */
  private final class Countdown(count: Int, done: Option[Throwable] => Unit) {
    private var left = count
    private var first: Option[Throwable] = None
    if (count == 0) done(None)

    def one(problem: Option[Throwable]): Unit = {
      val isLast = synchronized {
        first = first.orElse(problem)
        left -= 1
        left == 0
      }
      if (isLast) done(first)
    }
  }
}

/** The proof that a message was handed out; see `PopReply` for what clients make it of. */
final case class PopHandle(id: CheckPointId, reviveQueue: Int) {
  def isOrderly: Boolean = reviveQueue == PopReply.OrderlyQueue
}

object PopHandle {
  private val MinParts = 8

  /** @throws Refusal when it is no handle, or not of this message */
  def of(text: String, queue: QueueKey, offset: Long): PopHandle = {
    val parts = text.split(' ')
    val handle = for {
      _ <- Option.when(parts.length >= MinParts)(())
      start <- parts(0).toLongOption
      popTime <- parts(1).toLongOption
      _ <- parts(2).toLongOption
      reviveQueue <- parts(3).toIntOption
      queueId <- parts(6).toIntOption
      if queueId == queue.queueId
      handed <- parts(7).toLongOption
      if handed == offset
    } yield PopHandle(CheckPointId(start, popTime), reviveQueue)
    handle.getOrElse(
      throw Failures.invalid(
        s"extraInfo is no handle of message $offset of queue ${queue.queueId}: '${text.take(100)}'"
      )
    )
  }
}
