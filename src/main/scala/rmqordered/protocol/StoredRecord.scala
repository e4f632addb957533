package rmqordered.protocol

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.model.{HostAddress, TagFilter}

/** What all records of one append share. */
final case class RecordEnvelope(
    topic: String,
    queueId: Int,
    sysFlag: Int,
    bornTimestamp: Long,
    bornHost: HostAddress,
    storeHost: HostAddress,
    reconsumeTimes: Int,
    preparedTransactionOffset: Long = 0L
) {
  val topicBytes: Array[Byte] = topic.getBytes(UTF_8)

  /** The client's flags, with the host bits as this record's hosts need them. */
  def effectiveSysFlag: Int =
    (sysFlag & ~(StoredRecord.BornHostV6 | StoredRecord.StoreHostV6)) |
      (if (bornHost.isV6) StoredRecord.BornHostV6 else 0) |
      (if (storeHost.isV6) StoredRecord.StoreHostV6 else 0)
}

/** What differs from record to record of one append. */
final class RecordContent private (
    val flag: Int,
    val body: Slice,
    val properties: Slice,
    val bodyCrc: Int
) {
  def this(flag: Int, body: Slice, properties: Slice) =
    this(flag, body, properties, Crc32.of(body))

  val marks: PropertyMarks = PropertyMarks.of(properties)
  val tagsCode: Long =
    if (marks.tags.isEmpty) 0L else TagFilter.tagsCode(marks.tags.text)

  /** The same with one more property, behind all others: of a repeated one the last counts. */
  def withProperty(name: String, value: Array[Byte]): RecordContent =
    new RecordContent(
      flag,
      body,
      MessageProperties.appended(properties, name, value),
      bodyCrc
    )
}

/** Where a record stands and since when: known only at the moment of the append. */
final case class RecordPosition(queueOffset: Long, commitLogOffset: Long, storeTimestamp: Long)

/**
 * The stored record: the form of a message in the commit log and in pull answers, big-endian.
 *
 * {{{
 *  0 i32 total size         | 4 i32 magic (version 1 or 2) | 8 i32 body CRC  | 12 i32 queue id
 * 16 i32 flag               | 20 i64 queue offset          | 28 i64 commit log offset
 * 36 i32 sys flag           | 40 i64 born timestamp        | 48 born host: 4 or 16 bytes, i32 port
 *    i64 store timestamp    | store host: 4 or 16 bytes, i32 port
 *    i32 reconsume times    | i64 prepared transaction offset
 *    i32 body length, body  | i8 (version 1) or i16 (version 2) topic length, topic
 *    i16 properties length, properties
 * }}}
 */
object StoredRecord {
  val MagicV1: Int = 0xdaa320a7
  val MagicV2: Int = 0xdaa320ab

  /** Marks the unused end of a commit log file; never on the wire. */
  val MagicBlank: Int = 0xcbd43194

  val BornHostV6 = 0x10
  val StoreHostV6 = 0x20
  val MaxPropertiesBytes: Int = Short.MaxValue

  val MagicAt = 4
  val BodyCrcAt = 8
  val QueueIdAt = 12
  val QueueOffsetAt = 20
  val CommitLogOffsetAt = 28
  val SysFlagAt = 36
  val BornTimestampAt = 40
  val BornHostAt = 48

  /** A record with IPv4 hosts and nothing in it. */
  val MinBytes = 91

  // Longer topics (retry topics of long groups) do not fit version 1's signed length byte.
  private val MaxTopicBytesV1: Int = Byte.MaxValue
  private val FixedBytes = BornHostAt + 8 + 4 + 8 + 4 + 2

  def size(envelope: RecordEnvelope, content: RecordContent): Int =
    FixedBytes + envelope.bornHost.encodedLength + envelope.storeHost.encodedLength +
      content.body.length + (if (isV1(envelope)) 1 else 2) + envelope.topicBytes.length +
      content.properties.length

  /** The sizes of the records of one append. Loops, not maps: these run for every message. */
  def sizes(envelope: RecordEnvelope, contents: Vector[RecordContent]): Array[Int] = {
    val found = new Array[Int](contents.length)
    var i = 0
    while (i < found.length) {
      found(i) = size(envelope, contents(i))
      i += 1
    }
    found
  }

  def totalSize(envelope: RecordEnvelope, contents: Vector[RecordContent]): Long = {
    var (total, i) = (0L, 0)
    while (i < contents.length) {
      total += size(envelope, contents(i))
      i += 1
    }
    total
  }

  /** The bytes of an append that fits a file. */
  def totalSize(sizes: Array[Int]): Int = {
    var (total, i) = (0, 0)
    while (i < sizes.length) {
      total += sizes(i)
      i += 1
    }
    total
  }

  /** Where the store timestamp stands, which depends on the size of the born host. */
  def storeTimestampAt(sysFlag: Int): Int = BornHostAt + hostBytes(sysFlag, BornHostV6)

  def hostBytes(sysFlag: Int, v6Bit: Int): Int =
    4 + (if ((sysFlag & v6Bit) != 0) HostAddress.V6Bytes else HostAddress.V4Bytes)

  /**
   * Writes a record at the target's position, except for its first word, the size: a record becomes
   * one only when the caller puts the size, last of all. So a process killed in the middle leaves
   * no half record behind.
   *
   * @return
   *   the record's size
   */
  def writeWithoutSize(
      target: ByteBuffer,
      envelope: RecordEnvelope,
      content: RecordContent,
      position: RecordPosition
  ): Int = {
    val start = target.position()
    target.position(start + MagicAt)
    target.putInt(if (isV1(envelope)) MagicV1 else MagicV2).putInt(content.bodyCrc)
    target.putInt(envelope.queueId).putInt(content.flag)
    target.putLong(position.queueOffset).putLong(position.commitLogOffset)
    target.putInt(envelope.effectiveSysFlag).putLong(envelope.bornTimestamp)
    putHost(target, envelope.bornHost)
    target.putLong(position.storeTimestamp)
    putHost(target, envelope.storeHost)
    target.putInt(envelope.reconsumeTimes).putLong(envelope.preparedTransactionOffset)
    target.putInt(content.body.length)
    target.put(content.body.bytes, content.body.offset, content.body.length)
    if (isV1(envelope)) target.put(envelope.topicBytes.length.toByte)
    else target.putShort(envelope.topicBytes.length.toShort)
    target.put(envelope.topicBytes)
    target.putShort(content.properties.length.toShort)
    target.put(content.properties.bytes, content.properties.offset, content.properties.length)
    target.position() - start
  }

  def encode(
      envelope: RecordEnvelope,
      content: RecordContent,
      position: RecordPosition
  ): Array[Byte] = {
    val out = ByteBuffer.allocate(size(envelope, content))
    val written = writeWithoutSize(out, envelope, content, position)
    out.putInt(0, written).array()
  }

  private def isV1(envelope: RecordEnvelope): Boolean =
    envelope.topicBytes.length <= MaxTopicBytesV1

  private def putHost(target: ByteBuffer, host: HostAddress): Unit = {
    val _ = target.put(host.address).putInt(host.port)
  }
}
