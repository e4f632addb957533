package rmqordered.protocol

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{BufferUnderflowException, ByteBuffer}

/**
 * The ROCKETMQ form of a frame's header, big-endian:
 *
 * {{{
 * i16 code | i8 language | i16 version | i32 opaque | i32 flag
 * i32 remark length | remark, UTF-8
 * i32 extFields length in bytes | { i16 key length | key | i32 value length | value } ...
 * }}}
 */
object BinaryHeader {
  private val FixedBytes = 2 + 1 + 2 + 4 + 4

  def encode(command: RemotingCommand): Array[Byte] = {
    val remark = command.remark.fold(Array.emptyByteArray)(_.getBytes(UTF_8))
    val fields = command.extFields.fold(Seq.empty[(Array[Byte], Array[Byte])])(
      _.toSeq.map { case (key, value) => (key.getBytes(UTF_8), value.getBytes(UTF_8)) }
    )
    val fieldBytes = fields.map { case (key, value) => 2 + key.length + 4 + value.length }.sum
    val out = ByteBuffer.allocate(FixedBytes + 4 + remark.length + 4 + fieldBytes)
    out.putShort(command.code.toShort).put(Language.ordinal(command.language).toByte)
    out.putShort(command.version.toShort).putInt(command.opaque).putInt(command.flag)
    out.putInt(remark.length).put(remark).putInt(fieldBytes)
    fields.foreach { case (key, value) =>
      out.putShort(key.length.toShort).put(key).putInt(value.length).put(value)
    }
    out.array()
  }

  /** @throws ProtocolError when a length lies */
  def decode(bytes: Array[Byte], offset: Int, length: Int, body: Body): RemotingCommand = {
    val in = ByteBuffer.wrap(bytes, offset, length)
    try {
      val code = in.getShort.toInt
      val language = Language.byOrdinal(in.get.toInt)
      val version = in.getShort.toInt
      val opaque = in.getInt
      val flag = in.getInt
      val remark = text(in, in.getInt)
      val fields = readExtFields(in, in.getInt)
      RemotingCommand(code, language, version, opaque, flag, remark, fields, body)
    } catch {
      case _: BufferUnderflowException =>
        throw new ProtocolError(s"the binary header of $length bytes ends in the middle of a field")
    }
  }

  private def readExtFields(in: ByteBuffer, length: Int): Option[ExtFields] = {
    ensureAvailable(in, length)
    val end = in.position() + length
    val entries = Vector.newBuilder[(String, String)]
    while (in.position() < end) {
      val key = text(in, in.getShort.toInt)
      val value = text(in, in.getInt)
      // Java decodes a zero-length key or value to null, which is as good as absent.
      for (k <- key; v <- value) entries += k -> v
    }
    Option.when(length > 0)(ExtFields(entries.result(): _*))
  }

  private def text(in: ByteBuffer, length: Int): Option[String] = {
    ensureAvailable(in, length)
    val bytes = new Array[Byte](length)
    in.get(bytes)
    Option.when(length > 0)(new String(bytes, UTF_8))
  }

  // Checked before anything is allocated, so that a lying length costs nothing.
  private def ensureAvailable(in: ByteBuffer, length: Int): Unit =
    if (length < 0 || length > in.remaining())
      throw new ProtocolError(
        s"a binary header field claims $length bytes where ${in.remaining()} are left"
      )
}
