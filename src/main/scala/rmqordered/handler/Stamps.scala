package rmqordered.handler

import rmqordered.dedup.{LastStamp, SendStamp, SendStreams, StampVerdict, StampedRequest}
import rmqordered.protocol.{ExtFields, MessageProperties, RecordContent, ResponseCode, Slice}
import rmqordered.store.StampedOutcome

/** What a batch send brings along: its records, and a digest of each if it is stamped once. */
final case class BatchBody(records: Slice, digests: Slice)

/** Stamps of sends on the wire: read from requests and messages, told in answers. */
object Stamps {

  /** What a receipt says in place of an offset that nobody remembers. */
  val UnknownOffset: Long = -1L

  /** Takes the digests off a batch's body. */
  def batchBody(request: SendRequest, body: Slice): BatchBody =
    request.stamp.fold(BatchBody(body, Slice.empty)) { stamp =>
      val bytes = stamp.digests.toLong * StampedRequest.DigestBytes
      if (bytes <= 0 || bytes >= body.length)
        throw Failures.illegalMessage(
          s"${stamp.digests} digests of ${StampedRequest.DigestBytes} bytes are expected behind " +
            s"the batch, found ${body.length} bytes of both."
        )
      val length = body.length - bytes.toInt
      BatchBody(
        new Slice(body.bytes, body.offset, length),
        new Slice(body.bytes, body.offset + length, bytes.toInt)
      )
    }

  /** A single message has its stamp among its properties; one beside it would be lost. */
  def ensureNone(request: SendRequest): Unit =
    if (request.stamp.isDefined)
      throw Failures.illegalMessage("Only a batch send (320) has a stamp in its header.")

  /**
   * The stamps of a send; nothing when it has none, or when they mean nothing in its topic.
   *
   * @param target
   *   the topic in which the messages will be stored
   * @param digests
   *   of a request that is stamped once
   */
  def of(
      request: SendRequest,
      target: String,
      contents: Vector[RecordContent],
      digests: Slice = Slice.empty
  ): Option[StampedRequest] =
    request.stamp match {
      case Some(stamp) => Some(once(request, stamp, target, contents, digests))
      case None => ofEach(request, target, contents)
    }

  private def once(
      request: SendRequest,
      stamp: RequestStamp,
      target: String,
      contents: Vector[RecordContent],
      digests: Slice
  ): StampedRequest = {
    if (!SendStreams.counts(request.topic))
      throw Failures.illegalMessage(s"Stamps mean nothing in the topic ${request.topic}.")
    if (stamp.digests != contents.length)
      throw Failures.illegalMessage(
        s"A digest for each of ${contents.length} messages is expected, found ${stamp.digests}."
      )
    if (isStamped(request.properties) || contents.exists(!_.marks.stamp.isEmpty))
      throw Failures.illegalMessage(
        s"A request with a stamp in its header has no ${SendStamp.PropertyName} beside it."
      )
    ensurePlace(request, target)
    StampedRequest
      .once(stamp.stream, digests)
      .fold(problem => throw Failures.illegalMessage(problem), identity)
  }

  private def ofEach(
      request: SendRequest,
      target: String,
      contents: Vector[RecordContent]
  ): Option[StampedRequest] =
    if (!SendStreams.counts(request.topic)) None
    else {
      val stamps = StampedRequest
        .of(contents.map(_.marks.stamp))
        .fold(problem => throw Failures.illegalMessage(problem), identity)
      if (stamps.isDefined) ensurePlace(request, target)
      // Only records count in a batch; a stamp beside them would be lost without a word.
      else if (isStamped(request.properties))
        throw Failures.illegalMessage(
          s"In a batch every record carries its own ${SendStamp.PropertyName}."
        )
      stamps
    }

  // The name alone first: most sends have no stamp, and none of them needs its properties twice.
  private def isStamped(properties: String): Boolean =
    properties.contains(SendStamp.PropertyName) &&
      MessageProperties.decode(properties).contains(SendStamp.PropertyName)

  private def ensurePlace(request: SendRequest, target: String): Unit = {
    if (request.queueId < 0)
      throw Failures.illegalMessage(
        "A stamped message needs a queue id: streams are counted per queue."
      )
    // Whatever waits elsewhere first (delayed, half of a transaction) lands when others have
    // passed.
    if (target != request.topic)
      throw Failures.illegalMessage(
        s"A stamped message goes to its topic at once; this one would go to $target first."
      )
  }

  def receipt(landed: StampedOutcome.Landed): Seq[(String, String)] = {
    val duplicate =
      if (landed.landed == 0) "false" else if (landed.appended.isEmpty) "true" else "partial"
    Seq("duplicate" -> duplicate, "landed" -> landed.landed.toString) ++ fields(landed.last)
  }

  def fields(last: LastStamp): Seq[(String, String)] = Seq(
    "lastBatch" -> last.batch.toString,
    "lastSequence" -> last.sequence.toString,
    "lastDigest" -> SendStamp.digestText(last.digest),
    "lastOffset" -> last.queueOffset.toString
  )

  def refusal(verdict: StampVerdict.Refused): Refusal = verdict match {
    case StampVerdict.StreamUnknown(found) =>
      new Refusal(
        ResponseCode.StreamUnknown,
        s"The stream is not known here, and sequence $found does not begin it; read back what " +
          "landed."
      )
    case StampVerdict.SequenceGap(expected, found, last) =>
      refused(ResponseCode.SequenceGap, s"Sequence $expected is expected, found $found.", last)
    case StampVerdict.ReplayDiverged(found, landed) =>
      refused(
        ResponseCode.ReplayDiverged,
        s"Sequence ${landed.sequence} of batch ${landed.batch} landed with digest " +
          s"${SendStamp.digestText(landed.digest)}, found ${SendStamp.digestText(found)}: " +
          "this is not what was sent before.",
        landed
      )
    case StampVerdict.StaleBatch(found, last) =>
      refused(
        ResponseCode.StaleBatch,
        s"Batch ${last.batch} has begun; batch $found is over.",
        last
      )
    case StampVerdict.TooManyStreams(limit) =>
      Failures.unavailable(s"all $limit send streams are in use; raise maxSendStreams")
  }

  private def refused(code: Int, sentence: String, last: LastStamp): Refusal =
    new Refusal(code, sentence, Some(ExtFields(fields(last): _*)))
}
