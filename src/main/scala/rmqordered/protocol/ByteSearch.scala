package rmqordered.protocol

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder

/** Looks for a byte, eight at a time: the virtual machine does not do that by itself. */
object ByteSearch {
  private val words =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.LITTLE_ENDIAN)
  private val WordBytes = 8
  private val Ones = 0x0101010101010101L
  private val Highs = 0x8080808080808080L

  /** The first place of a byte from `from` to before `until`; `until` if there is none. */
  def indexOf(bytes: Array[Byte], wanted: Byte, from: Int, until: Int): Int = {
    val pattern = (wanted & 0xffL) * Ones
    var at = from
    var hit = 0L
    while (hit == 0L && at <= until - WordBytes) {
      // Where the wanted byte stands is now zero; the lowest high bit set below marks the first.
      val differing = (words.get(bytes, at): Long) ^ pattern
      hit = (differing - Ones) & ~differing & Highs
      if (hit == 0L) at += WordBytes
    }
    if (hit != 0L) at + java.lang.Long.numberOfTrailingZeros(hit) / WordBytes
    else {
      while (at < until && bytes(at) != wanted) at += 1
      at
    }
  }
}
