package rmqordered.dedup

import java.nio.ByteBuffer

import scala.collection.immutable.ArraySeq

import rmqordered.protocol.{RecordContent, Slice}

/**
 * The stamps of one send request: one stream, one batch, consecutive sequences.
 *
 * @param digests
 *   by message, in order
 * @param isStampedOnce
 *   whether the stamp came with the request, and not one with each message: then the last record of
 *   the append has to carry it
 */
final case class StampedRequest(
    sink: String,
    partition: Long,
    batch: Long,
    firstSequence: Long,
    digests: IndexedSeq[Long],
    isStampedOnce: Boolean = false
) {
  def lastSequence: Long = firstSequence + digests.length - 1

  def contains(sequence: Long): Boolean = sequence >= firstSequence && sequence <= lastSequence

  def digestOf(sequence: Long): Long = digests((sequence - firstSequence).toInt)

  /** The request without its first messages, as one run. */
  def run(skipped: Int): RunStamp =
    RunStamp(
      SendStamp(sink, batch, partition, lastSequence, digests.last),
      digests.length - skipped
    )

  /** The request's messages without the first ones, as they are to be stored. */
  def toStore(contents: Vector[RecordContent], skipped: Int): Vector[RecordContent] = {
    val rest = contents.drop(skipped)
    if (!isStampedOnce) rest else rest.updated(rest.length - 1, run(skipped).on(rest.last))
  }
}

object StampedRequest {

  /** How many bytes a digest takes behind a batch. */
  val DigestBytes = 8

  private val StreamParts = 4

  /**
   * Reads a stamp that came once for a request.
   *
   * @param stream
   *   `sink/batch/partition/sequence`, the sequence being that of the first message
   * @param digests
   *   of all messages, in order; their number is believed
   */
  def once(stream: String, digests: Slice): Either[String, StampedRequest] = {
    val sequences = digests.length / DigestBytes
    val request = stream.split("/", -1) match {
      case Array(sink, batch, partition, sequence) =>
        for {
          b <- SendStamp.number(batch)
          p <- SendStamp.number(partition)
          s <- SendStamp.number(sequence)
          // The last one is written down as a number, too.
          _ <- SendStamp.number((s + sequences - 1).toString)
          if SendStamp.isSink(sink)
        } yield StampedRequest(sink, p, b, s, numbers(digests), isStampedOnce = true)
      case _ => None
    }
    request.toRight(
      s"The stamp of a request has $StreamParts parts, sink/batch/partition/sequence, " +
        s"found '${stream.take(120)}' for $sequences messages."
    )
  }

  private def numbers(digests: Slice): IndexedSeq[Long] = {
    val found = new Array[Long](digests.length / DigestBytes)
    ByteBuffer.wrap(digests.bytes, digests.offset, digests.length).asLongBuffer().get(found)
    ArraySeq.unsafeWrapArray(found)
  }

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
