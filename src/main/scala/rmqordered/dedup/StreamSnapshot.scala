package rmqordered.dedup

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  DataInputStream,
  DataOutputStream,
  IOException
}
import java.util.zip.CRC32

import rmqordered.model.QueueKey
import rmqordered.util.SmallFile

/**
 * The send streams as they were when the log ended at `validTo`.
 *
 * {{{
 * i32 magic | i32 version | i64 valid to | i32 count | streams | i32 CRC-32 of all before
 * stream: text topic | i32 queue id | text sink | i64 partition | i64 batch | i64 sequence
 *         i64 digest | i64 queue offset | i64 commit log offset | i64 run start
 * text: u16 length, bytes
 * }}}
 */
final case class StreamSnapshot(validTo: Long, streams: Vector[(StreamKey, LastStamp)])

object StreamSnapshot {
  val empty: StreamSnapshot = StreamSnapshot(0L, Vector.empty)

  private val Magic = 0x524d5153
  private val Version = 1
  private val CrcBytes = 4

  // A smaller stream than one with a topic and sink of one letter does not exist.
  private val MinStreamBytes = 66

  /** The snapshot in a file, an empty one if there is none, or what is wrong with it. */
  def read(file: SmallFile): Either[String, StreamSnapshot] =
    file.read().fold[Either[String, StreamSnapshot]](Right(empty))(decode)

  def encode(snapshot: StreamSnapshot): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    out.writeInt(Magic)
    out.writeInt(Version)
    out.writeLong(snapshot.validTo)
    out.writeInt(snapshot.streams.length)
    snapshot.streams.foreach { case (key, last) => write(out, key, last) }
    out.writeInt(crcOf(bytes.toByteArray, bytes.size()))
    bytes.toByteArray
  }

  private def write(out: DataOutputStream, key: StreamKey, last: LastStamp): Unit = {
    out.writeUTF(key.queue.topic)
    out.writeInt(key.queue.queueId)
    out.writeUTF(key.sink)
    Seq(
      key.partition,
      last.batch,
      last.sequence,
      last.digest,
      last.queueOffset,
      last.commitLogOffset,
      last.runStart
    ).foreach(value => out.writeLong(value))
  }

  def decode(bytes: Array[Byte]): Either[String, StreamSnapshot] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    try {
      if (bytes.length < CrcBytes) Left("it is too short")
      else if (in.readInt() != Magic) Left("it is no snapshot of send streams")
      else if (in.readInt() != Version) Left("its version is unknown")
      else if (storedCrc(bytes) != crcOf(bytes, bytes.length - CrcBytes))
        Left("its checksum is wrong")
      else {
        val validTo = in.readLong()
        val count = in.readInt()
        if (count < 0 || count > bytes.length / MinStreamBytes) Left(s"it claims $count streams")
        else Right(StreamSnapshot(validTo, Vector.fill(count)(read(in))))
      }
    } catch { case error: IOException => Left(s"it ends too early ($error)") }
  }

  private def read(in: DataInputStream): (StreamKey, LastStamp) = {
    val queue = QueueKey(in.readUTF(), in.readInt())
    val key = StreamKey(queue, in.readUTF(), in.readLong())
    key -> LastStamp(
      in.readLong(),
      in.readLong(),
      in.readLong(),
      in.readLong(),
      in.readLong(),
      in.readLong()
    )
  }

  private def storedCrc(bytes: Array[Byte]): Int =
    java.nio.ByteBuffer.wrap(bytes).getInt(bytes.length - CrcBytes)

  private def crcOf(bytes: Array[Byte], length: Int): Int = {
    val crc = new CRC32()
    crc.update(bytes, 0, length)
    crc.getValue.toInt
  }
}
