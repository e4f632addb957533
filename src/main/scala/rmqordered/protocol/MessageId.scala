package rmqordered.protocol

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.ISO_8859_1

import rmqordered.model.HostAddress

/** RocketMQ's message ids: upper-case hexadecimal. */
object MessageId {
  private val OffsetDigits = 16

  // Host of 4 or 16 bytes, port, offset, in hexadecimal.
  private val idLengths =
    Set(HostAddress.V4Bytes, HostAddress.V6Bytes).map(host => 2 * (host + 4 + 8))
  private val digits = "0123456789ABCDEF".toCharArray

  /** The id that says where a message is stored: store host, port, commit log offset. */
  def offsetMessageId(storeHost: HostAddress, commitLogOffset: Long): String = {
    val bytes = ByteBuffer.allocate(storeHost.encodedLength + 8)
    bytes.put(storeHost.address).putInt(storeHost.port).putLong(commitLogOffset)
    hex(bytes.array())
  }

  /**
   * The ids of messages stored by one append, with commas between them: one text made in one pass,
   * for there may be thousands, and they differ in the offset only.
   */
  def offsetMessageIds(storeHost: HostAddress, commitLogOffsets: Array[Long]): String = {
    val first = offsetMessageId(storeHost, commitLogOffsets(0)).getBytes(ISO_8859_1)
    val stride = first.length + 1
    val out = new Array[Byte](stride * commitLogOffsets.length - 1)
    var i = 0
    while (i < commitLogOffsets.length) {
      val end = i * stride + first.length
      System.arraycopy(first, 0, out, i * stride, first.length)
      putHex(out, end, commitLogOffsets(i))
      if (end < out.length) out(end) = ','
      i += 1
    }
    new String(out, ISO_8859_1)
  }

  /** Writes a number's digits so that they end before `end`. */
  private def putHex(out: Array[Byte], end: Int, number: Long): Unit = {
    var (rest, at) = (number, end - 1)
    while (at >= end - OffsetDigits) {
      out(at) = digits((rest & 0xf).toInt).toByte
      rest >>>= 4
      at -= 1
    }
  }

  /** The place in the commit log that such an id names. */
  def commitLogOffset(id: String): Option[Long] =
    Option
      .when(idLengths.contains(id.length))(id.takeRight(OffsetDigits))
      .flatMap(digits => scala.util.Try(java.lang.Long.parseUnsignedLong(digits, 16)).toOption)
      .filter(_ >= 0)

  def hex(bytes: Array[Byte]): String = {
    val out = new Array[Char](bytes.length * 2)
    // A loop, not foreach: this runs for every message of a batch.
    var i = 0
    while (i < bytes.length) {
      out(2 * i) = digits((bytes(i) >> 4) & 0xf)
      out(2 * i + 1) = digits(bytes(i) & 0xf)
      i += 1
    }
    new String(out)
  }
}
