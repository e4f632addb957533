package rmqordered.protocol

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.model.HostAddress

/** A stored record taken apart. */
final case class DecodedRecord(
    size: Int,
    envelope: RecordEnvelope,
    content: RecordContent,
    position: RecordPosition
)

/**
 * Reads stored records from bytes that may be torn, stale or garbage: recovery's eyes. Every length
 * is checked against what is left before it is used, and the body against its checksum.
 */
object RecordReader {

  sealed trait Outcome
  final case class Found(record: DecodedRecord) extends Outcome

  /** The filler at the end of a commit log file. */
  final case class Blank(size: Int) extends Outcome

  /** Zeroes: nothing was written here. */
  case object Nothing extends Outcome
  final case class Bad(reason: String) extends Outcome

  private val BlankBytes = 8

  /** Looks at the record starting at `at`; the buffer's limit is the end of what may be read. */
  def read(buffer: ByteBuffer, at: Int): Outcome = {
    val available = buffer.limit() - at
    if (available < BlankBytes) Nothing
    else {
      val size = buffer.getInt(at)
      val magic = buffer.getInt(at + StoredRecord.MagicAt)
      if (magic == StoredRecord.MagicBlank && size > 0) Blank(size)
      else if (size == 0) Nothing
      else if (magic != StoredRecord.MagicV1 && magic != StoredRecord.MagicV2)
        Bad(s"unknown magic 0x${magic.toHexString}")
      else if (size < StoredRecord.MinBytes || size > available)
        Bad(s"size $size where $available bytes are left")
      else decode(buffer.slice(at, size), magic == StoredRecord.MagicV1)
    }
  }

  /** @throws ProtocolError when the bytes are not exactly one good record */
  def decode(bytes: Array[Byte]): DecodedRecord = read(ByteBuffer.wrap(bytes), 0) match {
    case Found(record) if record.size == bytes.length => record
    case Found(record) => throw new ProtocolError(s"${record.size} bytes of ${bytes.length} used")
    case Bad(reason) => throw new ProtocolError(reason)
    case Blank(_) | Nothing => throw new ProtocolError("no record")
  }

  /** The properties of a record known to be good, without looking at the rest. */
  def properties(record: ByteBuffer): Slice = {
    val sysFlag = record.getInt(StoredRecord.SysFlagAt)
    val afterHosts = StoredRecord.storeTimestampAt(sysFlag) + 8 +
      StoredRecord.hostBytes(sysFlag, StoredRecord.StoreHostV6)
    val bodyLengthAt = afterHosts + 4 + 8
    val topicAt = bodyLengthAt + 4 + record.getInt(bodyLengthAt)
    val isV1 = record.getInt(StoredRecord.MagicAt) == StoredRecord.MagicV1
    val lengthAt =
      if (isV1) topicAt + 1 + record.get(topicAt).toInt
      else topicAt + 2 + record.getShort(topicAt).toInt
    val found = new Array[Byte](record.getShort(lengthAt).toInt)
    record.get(lengthAt + 2, found)
    Slice(found)
  }

  private def decode(record: ByteBuffer, isV1: Boolean): Outcome =
    try {
      val crc = record.getInt(StoredRecord.BodyCrcAt)
      val decoded = parse(record, isV1)
      if (decoded.content.bodyCrc != crc)
        Bad(s"body checksum ${decoded.content.bodyCrc}, recorded $crc")
      else if (record.hasRemaining) Bad(s"${record.remaining()} bytes too many")
      else Found(decoded)
    } catch {
      case _: java.nio.BufferUnderflowException => Bad("a length points outside the record")
      case error: ProtocolError => Bad(error.getMessage)
    }

  private def parse(record: ByteBuffer, isV1: Boolean): DecodedRecord = {
    record.position(StoredRecord.QueueIdAt)
    val queueId = record.getInt
    val flag = record.getInt
    val queueOffset = record.getLong
    val commitLogOffset = record.getLong
    val sysFlag = record.getInt
    val bornTimestamp = record.getLong
    val bornHost = host(record, (sysFlag & StoredRecord.BornHostV6) != 0)
    val storeTimestamp = record.getLong
    val storeHost = host(record, (sysFlag & StoredRecord.StoreHostV6) != 0)
    val reconsumeTimes = record.getInt
    val preparedTransactionOffset = record.getLong
    val body = bytes(record, record.getInt)
    val topic =
      new String(bytes(record, if (isV1) record.get.toInt else record.getShort.toInt), UTF_8)
    val properties = bytes(record, record.getShort.toInt)
    DecodedRecord(
      record.limit(),
      RecordEnvelope(
        topic,
        queueId,
        sysFlag,
        bornTimestamp,
        bornHost,
        storeHost,
        reconsumeTimes,
        preparedTransactionOffset
      ),
      new RecordContent(flag, Slice(body), Slice(properties)),
      RecordPosition(queueOffset, commitLogOffset, storeTimestamp)
    )
  }

  private def host(record: ByteBuffer, isV6: Boolean): HostAddress =
    new HostAddress(
      bytes(record, if (isV6) HostAddress.V6Bytes else HostAddress.V4Bytes),
      record.getInt
    )

  private def bytes(record: ByteBuffer, length: Int): Array[Byte] = {
    if (length < 0 || length > record.remaining())
      throw new ProtocolError(s"a field claims $length bytes where ${record.remaining()} are left")
    val found = new Array[Byte](length)
    record.get(found)
    found
  }
}
