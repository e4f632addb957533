package rmqordered.protocol

import java.nio.ByteBuffer
import java.util.zip.CRC32

/** RocketMQ's body checksum: CRC-32 (IEEE) without its top bit. */
object Crc32 {
  private val Mask = 0x7fffffffL

  def of(slice: Slice): Int = {
    val crc = new CRC32()
    crc.update(slice.bytes, slice.offset, slice.length)
    (crc.getValue & Mask).toInt
  }

  def of(buffer: ByteBuffer): Int = {
    val crc = new CRC32()
    crc.update(buffer)
    (crc.getValue & Mask).toInt
  }
}
