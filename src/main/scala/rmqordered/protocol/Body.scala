package rmqordered.protocol

import java.nio.ByteBuffer

/**
 * The body of a command: bytes of a known length that can be copied once to where they are needed.
 * Pull answers are slices of the commit log and are copied straight into the network buffer.
 */
trait Body {
  def length: Int

  /** Puts exactly `length` bytes at the target's position and advances it. */
  def copyTo(target: ByteBuffer): Unit

  def toArray: Array[Byte] = {
    val target = ByteBuffer.allocate(length)
    copyTo(target)
    target.array()
  }

  /** How much memory it keeps: more than its length if it is a part of something larger. */
  def heldBytes: Int = length

  /** The bytes, copied only if they are not in one array. */
  def toSlice: Slice = Slice(toArray)

  final def isEmpty: Boolean = length == 0
}

object Body {
  val empty: Body = Bytes(Array.emptyByteArray)

  def apply(bytes: Array[Byte]): Body = if (bytes.isEmpty) empty else Bytes(bytes)

  /** A part of an array that nobody changes any more, such as a frame that was received. */
  def apply(slice: Slice): Body = if (slice.isEmpty) empty else Part(slice)

  private final case class Bytes(bytes: Array[Byte]) extends Body {
    override def length: Int = bytes.length
    override def copyTo(target: ByteBuffer): Unit = { val _ = target.put(bytes) }
    override def toArray: Array[Byte] = bytes
  }

  private final case class Part(slice: Slice) extends Body {
    override def length: Int = slice.length
    override def copyTo(target: ByteBuffer): Unit = {
      val _ = target.put(slice.bytes, slice.offset, slice.length)
    }
    override def heldBytes: Int = slice.bytes.length
    override def toSlice: Slice = slice
  }
}
