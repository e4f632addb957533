package rmqordered.protocol

import java.nio.ByteBuffer

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
