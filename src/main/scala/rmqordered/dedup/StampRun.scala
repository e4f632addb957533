package rmqordered.dedup

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import scala.collection.immutable.ArraySeq

import rmqordered.protocol.Slice

/**
 * The stamps of a request, read as bytes: the first one whole, of the others only what must differ.
 *
 * Believes nothing: each stamp has the first one's sink, batch and partition to the byte, the next
 * sequence in its only spelling, and a digest. Whatever is not exactly so is left to the slow way.
 */
private[dedup] object StampRun {
  private val DigestLength = 16

  // As in SendStamp: eighteen digits fit a Long.
  private val MaxDigits = 18
  private val Slash = '/'.toByte

  def of(stamps: IndexedSeq[Slice]): Option[StampedRequest] = {
    SendStamp.parse(stamps.head.text).toOption.flatMap { first =>
      val prefix = s"${first.sink}/${first.batch}/${first.partition}/".getBytes(UTF_8)
      val digests = new Array[Long](stamps.length)
      var at = 0
      while (at < stamps.length && follows(stamps(at), prefix, first.sequence + at, digests, at))
        at += 1
      Option.when(at == stamps.length)(
        StampedRequest(
          first.sink,
          first.partition,
          first.batch,
          first.sequence,
          ArraySeq.unsafeWrapArray(digests)
        )
      )
    }
  }

  private def follows(
      stamp: Slice,
      prefix: Array[Byte],
      sequence: Long,
      digests: Array[Long],
      at: Int
  ): Boolean = {
    val numberAt = stamp.offset + prefix.length
    val slashAt = stamp.end - DigestLength - 1
    numberAt < slashAt && stamp.bytes(slashAt) == Slash &&
    Arrays.equals(stamp.bytes, stamp.offset, numberAt, prefix, 0, prefix.length) &&
    isNumber(stamp.bytes, numberAt, slashAt, sequence) &&
    isDigest(stamp.bytes, slashAt + 1, digests, at)
  }

  private def isNumber(bytes: Array[Byte], start: Int, end: Int, wanted: Long): Boolean = {
    val isPlain = end - start <= MaxDigits && (bytes(start) != '0' || end - start == 1)
    var value = 0L
    var at = start
    while (isPlain && at < end && bytes(at) >= '0' && bytes(at) <= '9') {
      value = value * 10 + (bytes(at) - '0').toLong
      at += 1
    }
    isPlain && at == end && value == wanted
  }

  private def isDigest(
      bytes: Array[Byte],
      start: Int,
      digests: Array[Long],
      place: Int
  ): Boolean = {
    var value = 0L
    var at = start
    // Negative as soon as one of them is no digit: no branch per digit.
    var seen = 0
    while (at < start + DigestLength) {
      val digit = hexadecimal(bytes(at) & 0xff)
      seen |= digit
      value = (value << 4) | digit
      at += 1
    }
    digests(place) = value
    seen >= 0
  }

  private val hexadecimal: Array[Byte] =
    Array.tabulate(256)(char => "0123456789abcdef".indexOf(char).toByte)
}
