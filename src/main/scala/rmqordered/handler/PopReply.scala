package rmqordered.handler

import java.nio.ByteBuffer

import rmqordered.protocol.{
  Body,
  ExtFields,
  MessageProperties,
  RecordContent,
  RecordReader,
  ResponseCode,
  StoredRecord
}
import rmqordered.schedule.{Redelivery, Refitting}

/** What one pop found in one queue. `kind` tells the topic from its two retry topics. */
final case class PoppedMessages(
    kind: Int,
    queueId: Int,
    startOffset: Long,
    offsets: Vector[Long],
    body: Body,
    counts: Option[Map[Long, Int]] = None
)

/** When a pop was served, and how long its messages are hidden. */
final case class PopTimes(popTime: Long, invisibleMs: Long)

/** The answers to pops, in RocketMQ's strings. */
object PopReply {
  val TopicKind = 0
  val RetryKind = 1
  val RetryKindV2 = 2

  /** In handles of orderly pops, where others have the number of a revive queue. */
  val OrderlyQueue = 999

  def found(
      parts: Seq[PoppedMessages],
      times: PopTimes,
      restNum: Long,
      isOrderly: Boolean
  ): Response = {
    val starts = parts.map(part => s"${part.kind} ${part.queueId} ${part.startOffset}")
    val offsets =
      parts.map(part => s"${part.kind} ${part.queueId} ${part.offsets.mkString(",")}")
    val fields = header(times, restNum, isOrderly) ++ Seq(
      "startOffsetInfo" -> starts.mkString(";"),
      "msgOffsetInfo" -> offsets.mkString(";")
    ) ++ Option.when(isOrderly)("orderCountInfo" -> parts.flatMap(counts).mkString(";"))
    Response(
      ResponseCode.Success,
      Some("FOUND"),
      Some(ExtFields(fields: _*)),
      new JoinedBody(parts.map(_.body))
    )
  }

  /** Nothing came, or nobody more may wait. */
  def empty(code: Int, times: PopTimes, isOrderly: Boolean): Response =
    Response(
      code,
      Some("NO_MESSAGE_IN_QUEUE"),
      Some(ExtFields(header(times, 0L, isOrderly): _*))
    )

  def timeout: Refusal = new Refusal(
    ResponseCode.PollingTimeout,
    "the pop is timeout too much",
    Some(ExtFields(header(PopTimes(0L, 0L), 0L, isOrderly = false): _*))
  )

  private def header(times: PopTimes, restNum: Long, isOrderly: Boolean): Seq[(String, String)] =
    Seq(
      "popTime" -> times.popTime.toString,
      "invisibleTime" -> times.invisibleMs.toString,
      "reviveQid" -> reviveQueue(isOrderly).toString,
      "restNum" -> restNum.toString
    )

  private def reviveQueue(isOrderly: Boolean): Int = if (isOrderly) OrderlyQueue else 0

  /** How often each message went out before, then the smallest of these for the queue. */
  private def counts(part: PoppedMessages): Seq[String] =
    part.counts.toSeq.flatMap { known =>
      val some = part.offsets.filter(known.contains).map { offset =>
        s"${part.kind} qo${part.queueId}%$offset ${known(offset)}"
      }
      val smallest = part.offsets.map(known.getOrElse(_, 0)).min
      some :+ s"${part.kind} ${part.queueId} $smallest"
    }

  /** The offsets of records, which are one behind another. */
  def offsetsOf(body: Body): Vector[Long] = {
    val bytes = ByteBuffer.wrap(body.toArray)
    Iterator
      .iterate(0)(at => at + bytes.getInt(at))
      .takeWhile(_ < bytes.limit())
      .map(at => bytes.getLong(at + StoredRecord.QueueOffsetAt))
      .toVector
  }

  /** The records with these offsets. */
  def only(body: Body, offsets: Set[Long]): Body = {
    val bytes = ByteBuffer.wrap(body.toArray)
    val kept = Iterator
      .iterate(0)(at => at + bytes.getInt(at))
      .takeWhile(_ < bytes.limit())
      .filter(at => offsets.contains(bytes.getLong(at + StoredRecord.QueueOffsetAt)))
      .map(at => Body(java.util.Arrays.copyOfRange(bytes.array(), at, at + bytes.getInt(at))))
    new JoinedBody(kept.toVector)
  }

  /** Records of a retry topic under the name of the topic, each with its own handle. */
  def relabelled(body: Body, topic: String, handle: Long => String): Body = {
    val bytes = ByteBuffer.wrap(body.toArray)
    val records = Iterator.unfold(0) { at =>
      RecordReader.read(bytes, at) match {
        case RecordReader.Found(record) => Some((record, at + record.size))
        case _ => None
      }
    }
    new JoinedBody(
      records.map { record =>
        val properties = Redelivery
          .propertiesOf(record)
          .updated(MessageProperties.PopCheckpoint, handle(record.position.queueOffset))
        // Without room it goes out as it is: clients make the handle of a retry topic themselves.
        val (envelope, content) = Refitting.fitting(properties).fold(
          (record.envelope, record.content)
        ) { encoded =>
          val relabelled = new RecordContent(record.content.flag, record.content.body, encoded)
          (record.envelope.copy(topic = topic), relabelled)
        }
        Body(StoredRecord.encode(envelope, content, record.position))
      }.toVector
    )
  }
}

/** Bodies one behind another. */
final class JoinedBody(parts: Seq[Body]) extends Body {
  override val length: Int = parts.map(_.length).sum

  override def copyTo(target: ByteBuffer): Unit = parts.foreach(_.copyTo(target))
}
