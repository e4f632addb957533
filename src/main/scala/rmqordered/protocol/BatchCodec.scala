package rmqordered.protocol

import java.nio.ByteBuffer

/**
 * The body of SEND_BATCH_MESSAGE: records one after another, big-endian.
 *
 * {{{
 * i32 total size | i32 magic 0 | i32 body CRC 0 | i32 flag | i32 body length, body
 * i16 properties length, properties
 * }}}
 */
object BatchCodec {
  private val BodyLengthAt = 16
  private val BodyAt = 20

  /**
   * Splits a batch without copying bodies or properties.
   *
   * @throws ProtocolError
   *   when a length lies or the batch is empty
   */
  def decode(batch: Slice): Vector[RecordContent] = {
    if (batch.isEmpty) throw new ProtocolError("the batch is empty")
    val in = ByteBuffer.wrap(batch.bytes, batch.offset, batch.length).slice()
    val found = Vector.newBuilder[RecordContent]
    var at = 0
    while (at < batch.length) {
      found += decodeOne(in, at)
      at += in.getInt(at)
    }
    found.result()
  }

  private def decodeOne(in: ByteBuffer, at: Int): RecordContent = {
    ensure(in.limit() - at >= BodyAt, at)
    val bodyLength = in.getInt(at + BodyLengthAt)
    val afterBody = at.toLong + BodyAt + bodyLength
    ensure(bodyLength >= 0 && afterBody + 2 <= in.limit(), at)
    val propertiesLength = in.getShort(afterBody.toInt).toInt
    val end = afterBody + 2 + propertiesLength
    ensure(propertiesLength >= 0 && end <= in.limit() && in.getInt(at) == end - at, at)
    val body = new Slice(in.array(), in.arrayOffset() + at + BodyAt, bodyLength)
    val propertiesAt = in.arrayOffset() + afterBody.toInt + 2
    val properties = new Slice(in.array(), propertiesAt, propertiesLength)
    new RecordContent(in.getInt(at + 12), body, properties)
  }

  private def ensure(condition: Boolean, at: Int): Unit =
    if (!condition) throw new ProtocolError(s"the batch record at byte $at has a length that lies")
}
