package rmqordered.store

import java.nio.ByteBuffer

import rmqordered.protocol.Body

/**
 * The records of a pull answer: pieces of the commit log, copied once, straight into the network
 * buffer. Neighbouring records become one piece.
 */
final class LogSlices private (
    segments: Array[MappedSegment],
    positions: Array[Int],
    lengths: Array[Int],
    override val length: Int,
    val messageCount: Int
) extends Body {

  override def copyTo(target: ByteBuffer): Unit = {
    var i = 0
    while (i < segments.length) {
      val at = target.position()
      segments(i).noteRead(lengths(i))
      target.put(at, segments(i).bytes, positions(i), lengths(i))
      target.position(at + lengths(i))
      i += 1
    }
  }
}

object LogSlices {
  val empty: LogSlices = new Builder().result()

  final class Builder {
    private val segments = Array.newBuilder[MappedSegment]
    private val positions = Array.newBuilder[Int]
    private val lengths = Array.newBuilder[Int]
    private var current: MappedSegment = _
    private var start = 0
    private var end = 0
    private var total = 0
    private var count = 0

    def messageCount: Int = count

    def byteCount: Int = total

    def add(segment: MappedSegment, position: Int, size: Int): Unit = {
      if ((segment ne current) || position != end) {
        flush()
        current = segment
        start = position
      }
      end = position + size
      total += size
      count += 1
    }

    def result(): LogSlices = {
      flush()
      new LogSlices(segments.result(), positions.result(), lengths.result(), total, count)
    }

    private def flush(): Unit =
      if (current != null && end > start) {
        segments += current
        positions += start
        lengths += end - start
        start = end
      }
  }
}
