package rmqordered.handler

import rmqordered.protocol.RequestCode

/**
 * A stamp that stands for all messages of a batch.
 *
 * @param stream
 *   `sink/batch/partition/sequence`, the sequence being that of the first message
 * @param digests
 *   how many digests stand behind the batch in the body
 */
final case class RequestStamp(stream: String, digests: Int)

/**
 * The header of a send, whichever of RocketMQ's two spellings it came in.
 *
 * @param isBrief
 *   whether the sender wants to hear only the first message's id: those of a batch can take a fifth
 *   of the batch itself. RocketMQ does not know this field and tells them all.
 */
final case class SendRequest(
    topic: String,
    defaultTopic: String,
    defaultTopicQueueNums: Int,
    queueId: Int,
    sysFlag: Int,
    bornTimestamp: Long,
    flag: Int,
    properties: String,
    reconsumeTimes: Int,
    maxReconsumeTimes: Option[Int],
    isBrief: Boolean,
    stamp: Option[RequestStamp] = None
)

object SendRequest {

  def of(call: Call): SendRequest =
    if (call.command.code == RequestCode.SendMessage) long(call) else short(call)

  /** 10: the fields under their full names. */
  private def long(call: Call): SendRequest = SendRequest(
    topic = call.text("topic"),
    defaultTopic = call.optional("defaultTopic").getOrElse(""),
    defaultTopicQueueNums = call.optionalInt("defaultTopicQueueNums").getOrElse(0),
    queueId = call.int("queueId"),
    sysFlag = call.optionalInt("sysFlag").getOrElse(0),
    bornTimestamp = call.optionalLong("bornTimestamp").getOrElse(0L),
    flag = call.optionalInt("flag").getOrElse(0),
    properties = call.optional("properties").getOrElse(""),
    reconsumeTimes = call.optionalInt("reconsumeTimes").getOrElse(0),
    maxReconsumeTimes = call.optionalInt("maxReconsumeTimes"),
    isBrief = isBrief(call),
    stamp = stamp(call)
  )

  /** 310 and 320: the same fields under one letter each. */
  private def short(call: Call): SendRequest = SendRequest(
    topic = call.text("b"),
    defaultTopic = call.optional("c").getOrElse(""),
    defaultTopicQueueNums = call.optionalInt("d").getOrElse(0),
    queueId = call.int("e"),
    sysFlag = call.optionalInt("f").getOrElse(0),
    bornTimestamp = call.optionalLong("g").getOrElse(0L),
    flag = call.optionalInt("h").getOrElse(0),
    properties = call.optional("i").getOrElse(""),
    reconsumeTimes = call.optionalInt("j").getOrElse(0),
    maxReconsumeTimes = call.optionalInt("l"),
    isBrief = isBrief(call),
    stamp = stamp(call)
  )

  private def stamp(call: Call): Option[RequestStamp] =
    (call.optional("stamp"), call.optionalInt("digests")) match {
      case (None, None) => None
      case (Some(stream), Some(digests)) => Some(RequestStamp(stream, digests))
      case _ =>
        throw Failures.illegalMessage(
          "The header fields stamp and digests stand for each other; found one without the other."
        )
    }

  private def isBrief(call: Call): Boolean = call.optional("briefReceipt").contains("true")
}
