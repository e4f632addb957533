package rmqordered.store

import rmqordered.dedup.{LastStamp, StampVerdict, StampedRequest}

/** What became of the append of stamped messages. */
sealed trait StampedOutcome

object StampedOutcome {

  /**
   * All messages of the request are there and as durable as configured.
   *
   * @param queueOffset
   *   of the first message, if it is known
   * @param before
   *   where those lie that were there before, as far as that is known
   * @param appended
   *   where the others lie now
   */
  final case class Landed(
      last: LastStamp,
      queueOffset: Option[Long],
      before: Vector[Option[Long]],
      appended: Array[Long]
  ) extends StampedOutcome {

    /** How many messages were there before. */
    def landed: Int = before.length

    /** By message, where known. */
    def commitLogOffsets: Iterator[Option[Long]] = before.iterator ++ appended.iterator.map(Some(_))
  }

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
    Landed(last, first, before.map(_.map(queue.commitLogOffset)), appended)
  }
}
