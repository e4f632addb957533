package rmqordered.protocol

/**
 * A piece of a byte array that is not copied. Whoever makes one must not change the bytes later.
 */
final class Slice(val bytes: Array[Byte], val offset: Int, val length: Int) {
  def end: Int = offset + length

  def toArray: Array[Byte] = java.util.Arrays.copyOfRange(bytes, offset, end)
}

object Slice {
  def apply(bytes: Array[Byte]): Slice = new Slice(bytes, 0, bytes.length)
}
