package rmqordered.dedup

import rmqordered.protocol.Slice

/**
 * The stamps of one send request: one stream, one batch, consecutive sequences.
 *
 * @param digests
 *   by message, in order
 */
final case class StampedRequest(
    sink: String,
    partition: Long,
    batch: Long,
    firstSequence: Long,
    digests: IndexedSeq[Long]
) {
  def lastSequence: Long = firstSequence + digests.length - 1

  def contains(sequence: Long): Boolean = sequence >= firstSequence && sequence <= lastSequence

  def digestOf(sequence: Long): Long = digests((sequence - firstSequence).toInt)
}

object StampedRequest {

  /**
   * Puts the stamps of a request's messages together. Nothing when no message is stamped; a
   * sentence when the stamps do not make one piece of one stream.
   *
   * @param stamps
   *   by message, in order; empty where a message has none
   */
  def of(stamps: IndexedSeq[Slice]): Either[String, Option[StampedRequest]] =
    if (stamps.forall(_.isEmpty)) Right(None)
    else if (stamps.exists(_.isEmpty))
      Left(s"All messages of a request carry ${SendStamp.PropertyName}, or none.")
    else
      StampRun.of(stamps) match {
        case Some(run) => Right(Some(run))
        // Something is wrong, or unusual: the slow way says what.
        case None => slowly(stamps.map(_.text))
      }

  private def slowly(texts: Seq[String]): Either[String, Option[StampedRequest]] =
    texts.foldLeft[Either[String, Vector[SendStamp]]](Right(Vector.empty)) {
      (found, text) =>
        found.flatMap(stamps => SendStamp.parse(text).map(stamps :+ _))
    } match {
      case Left(sentence) => Left(sentence)
      case Right(stamps) => joined(stamps).map(Some(_))
    }

  private def joined(stamps: Vector[SendStamp]): Either[String, StampedRequest] = {
    val first = stamps.head
    stamps.zipWithIndex
      .collectFirst {
        case (stamp, i) if !follows(first, stamp, i.toLong) =>
          "The stamps of a request belong to one batch of one stream and follow each other; " +
            s"${stamp.text} does not follow ${first.text} as number $i."
      }
      .toLeft(StampedRequest(
        first.sink,
        first.partition,
        first.batch,
        first.sequence,
        stamps.map(_.digest)
      ))
  }

  private def follows(first: SendStamp, stamp: SendStamp, distance: Long): Boolean =
    stamp.copy(digest = first.digest) == first.copy(sequence = first.sequence + distance)
}
