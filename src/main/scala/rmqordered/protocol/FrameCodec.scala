package rmqordered.protocol

import java.nio.ByteBuffer

/**
 * Frames of RocketMQ's remoting protocol, big-endian. Pure: no sockets, no buffers of its own.
 *
 * {{{
 * i32 length of what follows | i32 header word | header | body (the rest)
 * header word: top byte = serialize type, low 24 bits = header length
 * }}}
 */
object FrameCodec {
  val LengthBytes = 4
  private val WordBytes = 4
  private val MaxHeaderLength = 0xffffff

  /**
   * Checks a length word before anything is buffered for it.
   *
   * @throws ProtocolError
   *   when the frame would be impossible or larger than allowed
   */
  def ensureLength(length: Int, maxFrameBytes: Int): Unit = {
    if (length < WordBytes)
      throw new ProtocolError(s"the frame claims a length of $length, at least $WordBytes expected")
    if (length > maxFrameBytes - LengthBytes)
      throw new ProtocolError(
        s"the frame claims a length of $length, above the limit of $maxFrameBytes"
      )
  }

  /** Checks a header word against its frame, as soon as the word is there. */
  def ensureHeaderWord(word: Int, length: Int): Unit = {
    if (SerializeType.byCode(word >>> 24).isEmpty)
      throw new ProtocolError(s"the header's serialize type is ${word >>> 24}, 0 or 1 expected")
    if ((word & MaxHeaderLength) > length - WordBytes)
      throw new ProtocolError(
        s"the header claims ${word & MaxHeaderLength} bytes in a frame of $length"
      )
  }

  /** Decodes one frame, given without its length word. */
  def decode(frame: Array[Byte]): RemotingCommand = {
    if (frame.length < WordBytes) throw new ProtocolError("the frame has no header word")
    val in = ByteBuffer.wrap(frame)
    val word = in.getInt
    ensureHeaderWord(word, frame.length)
    decode(word, frame.length) { part =>
      val _ = in.get(part)
    }
  }

  /**
   * Decodes one frame behind its checked header word; large bodies are copied once.
   *
   * @param length
   *   what the frame's length word says
   * @param fill
   *   fills an array with the next bytes of the frame
   */
  def decode(word: Int, length: Int)(fill: Array[Byte] => Unit): RemotingCommand = {
    val header = new Array[Byte](word & MaxHeaderLength)
    fill(header)
    val content = new Array[Byte](length - WordBytes - header.length)
    fill(content)
    val body = Body(content)
    if (word >>> 24 == SerializeType.Json.code.toInt)
      JsonHeader.decode(header, 0, header.length, body)
    else BinaryHeader.decode(header, 0, header.length, body)
  }

  def encodeHeader(command: RemotingCommand, serializeType: SerializeType): Array[Byte] =
    serializeType match {
      case SerializeType.Json => JsonHeader.encode(command)
      case SerializeType.RocketMq => BinaryHeader.encode(command)
    }

  /** The two words before the header: the frame's length and the header word. */
  def prefix(headerLength: Int, bodyLength: Int, serializeType: SerializeType): (Int, Int) =
    (WordBytes + headerLength + bodyLength, (serializeType.code.toInt << 24) | headerLength)

  /** A whole frame, length word included. */
  def encode(command: RemotingCommand, serializeType: SerializeType): Array[Byte] = {
    val header = encodeHeader(command, serializeType)
    val (length, word) = prefix(header.length, command.body.length, serializeType)
    val out = ByteBuffer.allocate(LengthBytes + length)
    out.putInt(length).putInt(word).put(header)
    command.body.copyTo(out)
    out.array()
  }
}
