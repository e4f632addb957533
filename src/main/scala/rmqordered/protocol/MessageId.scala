package rmqordered.protocol

import java.nio.ByteBuffer

import rmqordered.model.HostAddress

/** RocketMQ's message ids: upper-case hexadecimal. */
object MessageId {
  private val digits = "0123456789ABCDEF".toCharArray

  /** The id that says where a message is stored: store host, port, commit log offset. */
  def offsetMessageId(storeHost: HostAddress, commitLogOffset: Long): String = {
    val bytes = ByteBuffer.allocate(storeHost.encodedLength + 8)
    bytes.put(storeHost.address).putInt(storeHost.port).putLong(commitLogOffset)
    hex(bytes.array())
  }

  def hex(bytes: Array[Byte]): String = {
    val out = new Array[Char](bytes.length * 2)
    bytes.indices.foreach { i =>
      out(2 * i) = digits((bytes(i) >> 4) & 0xf)
      out(2 * i + 1) = digits(bytes(i) & 0xf)
    }
    new String(out)
  }
}
