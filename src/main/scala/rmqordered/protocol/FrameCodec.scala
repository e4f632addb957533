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
  def ensureHeaderWord(word: Int, length: Int, maxHeaderBytes: Int = MaxHeaderLength): Unit = {
    if (SerializeType.byCode(word >>> 24).isEmpty)
      throw new ProtocolError(s"the header's serialize type is ${word >>> 24}, 0 or 1 expected")
    if ((word & MaxHeaderLength) > length - WordBytes)
      throw new ProtocolError(
        s"the header claims ${word & MaxHeaderLength} bytes in a frame of $length"
      )
    if ((word & MaxHeaderLength) > maxHeaderBytes)
      throw new ProtocolError(
        s"the header claims ${word & MaxHeaderLength} bytes, above the limit of $maxHeaderBytes"
      )
  }

  /** The word at the beginning of some bytes: a length, or a header word. */
  def wordAt(bytes: Array[Byte]): Int = ByteBuffer.wrap(bytes).getInt

  /** Decodes one frame, given without its length word. */
  def decode(frame: Array[Byte]): RemotingCommand = {
    if (frame.length < WordBytes) throw new ProtocolError("the frame has no header word")
    val word = wordAt(frame)
    ensureHeaderWord(word, frame.length)
    val headerLength = word & MaxHeaderLength
    val bodyStart = WordBytes + headerLength
    val body = Body(new Slice(frame, bodyStart, frame.length - bodyStart))
    if (word >>> 24 == SerializeType.Json.code.toInt)
      JsonHeader.decode(frame, WordBytes, headerLength, body)
    else BinaryHeader.decode(frame, WordBytes, headerLength, body)
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
