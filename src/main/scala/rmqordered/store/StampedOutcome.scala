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

  /**
   * The receipt of a request whose messages are all in the queue.
   *
   * @param appended
   *   where those lie that were not there before
   */
  def of(
      queue: ConsumeQueue,
      request: StampedRequest,
      last: LastStamp,
      appended: Array[Long]
  ): Landed = {
    val landed = request.digests.length - appended.length
    val before = Vector.tabulate(landed) { i =>
      last.offsetOf(request.firstSequence + i).filter(_ >= queue.minOffset)
    }
    val first = before.headOption.getOrElse(Some(last.queueOffset - appended.length + 1))
    val offsets = before.map(_.map(queue.commitLogOffset)) ++ appended.view.map(Option(_))
    Landed(last, landed, first, offsets)
  }
}
