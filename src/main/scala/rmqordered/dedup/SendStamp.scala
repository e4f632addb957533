package rmqordered.dedup

import java.lang.{Long => JLong}

import rmqordered.protocol.MessageProperties

/**
 * The stamp of one message: who sends it, and which one it is.
 *
 * {{{
 * RMQO_STAMP = sink/batch/partition/sequence/digest
 * }}}
 *
 * Sequences count from 0 per (sink, partition, queue, batch). The digest is the client's own, over
 * what it has sent of the batch so far; the broker compares it and does not know how it is made.
 */
final case class SendStamp(
    sink: String,
    batch: Long,
    partition: Long,
    sequence: Long,
    digest: Long
) {
  def text: String = s"$sink/$batch/$partition/$sequence/${SendStamp.digestText(digest)}"
}

object SendStamp {

  /** The message property that holds it. */
  val PropertyName: String = MessageProperties.SendStamp

  private val Parts = 5
  private val MaxSinkLength = 64
  private val DigestLength = 16

  // Eighteen nines fit a Long with room to count on; nobody reaches them.
  private val MaxDigits = 18

  def parse(text: String): Either[String, SendStamp] = text.split("/", -1) match {
    case Array(sink, batch, partition, sequence, digest) =>
      val stamp = for {
        b <- number(batch)
        p <- number(partition)
        s <- number(sequence)
        d <- digestOf(digest)
        if isSink(sink)
      } yield SendStamp(sink, b, p, s, d)
      stamp.toRight(malformed(text))
    case _ => Left(malformed(text))
  }

  def digestText(digest: Long): String = {
    val hex = JLong.toHexString(digest)
    "0" * (DigestLength - hex.length) + hex
  }

  /** Whether a text can be a sink's name: also a guard for requests that ask about one. */
  def isSink(text: String): Boolean =
    text.nonEmpty && text.length <= MaxSinkLength && text.forall { char =>
      (char >= 'a' && char <= 'z') || (char >= 'A' && char <= 'Z') || isDigit(char) ||
      char == '_' || char == '.' || char == '-'
    }

  /** One spelling per number, so that one stream has one name. */
  private[dedup] def number(text: String): Option[Long] = {
    val isPlain = text.nonEmpty && text.length <= MaxDigits && text.forall(isDigit)
    Option.when(isPlain && (text.length == 1 || text.head != '0'))(text.toLong)
  }

  private def digestOf(text: String): Option[Long] = {
    val isHex =
      text.length == DigestLength && text.forall(c => isDigit(c) || (c >= 'a' && c <= 'f'))
    Option.when(isHex)(JLong.parseUnsignedLong(text, 16))
  }

  private def isDigit(char: Char): Boolean = char >= '0' && char <= '9'

  private def malformed(text: String): String =
    s"The property $PropertyName has $Parts parts, sink/batch/partition/sequence/digest, " +
      s"found '${text.take(120)}'."
}
