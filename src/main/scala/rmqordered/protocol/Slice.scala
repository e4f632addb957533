package rmqordered.protocol

import java.nio.charset.StandardCharsets.UTF_8

/**
 * A piece of a byte array that is not copied. Whoever makes one must not change the bytes later.
 */
final class Slice(val bytes: Array[Byte], val offset: Int, val length: Int) {
  def end: Int = offset + length

  def isEmpty: Boolean = length == 0

  /** Read as UTF-8. */
  def text: String = new String(bytes, offset, length, UTF_8)

  def toArray: Array[Byte] = java.util.Arrays.copyOfRange(bytes, offset, end)
}

object Slice {
  val empty: Slice = Slice(Array.emptyByteArray)

  def apply(bytes: Array[Byte]): Slice = new Slice(bytes, 0, bytes.length)
}
