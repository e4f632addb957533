package rmqordered.store

import rmqordered.dedup.{LastStamp, StampVerdict, StampedRequest}

/** What became of the append of stamped messages. */
sealed trait StampedOutcome

object StampedOutcome {

  /**
   * All messages of the request are there and as durable as configured.
   *
   * @param landed
   *   how many of them were there before
   * @param queueOffset
   *   of the first message, if it is known
   * @param commitLogOffsets
   *   by message, where known
   */
  final case class Landed(
      last: LastStamp,
      landed: Int,
      queueOffset: Option[Long],
      commitLogOffsets: Vector[Option[Long]]
  ) extends StampedOutcome

  /** Nothing was appended. */
  final case class Refused(verdict: StampVerdict.Refused) extends StampedOutcome

  /** Nothing was appended, or not for sure, for a reason that has nothing to do with stamps. */
  final case class Failed(outcome: AppendOutcome) extends StampedOutcome

  /** The receipt of a request whose messages are all in the queue. */
  def of(queue: ConsumeQueue, request: StampedRequest, last: LastStamp, landed: Int): Landed = {
    val offsets = request.digests.indices.toVector.map { i =>
      last.offsetOf(request.firstSequence + i).filter(_ >= queue.minOffset)
    }
    Landed(last, landed, offsets.head, offsets.map(_.map(queue.commitLogOffset)))
  }
}
