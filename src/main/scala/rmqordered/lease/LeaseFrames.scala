package rmqordered.lease

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32C

import rmqordered.model.MessageQueue

/**
 * Changes of leases as bytes. A frame is a mark, a length, a checksum and so many bytes; frames
 * follow each other from the beginning of a file. The checksum covers the file's number and the
 * place in it, so that a frame counts only where it was written.
 */
private[lease] object LeaseFrames {
  val HeaderBytes: Int = 12

  /** What a file holds up to the first place that is no frame. */
  final case class Read(changes: Vector[LeaseChanges], end: Int, tail: Tail)

  sealed trait Tail
  object Tail {
    case object Clean extends Tail

    /** Something begins there and is not whole: it was never answered, or the disk has lied. */
    case object Torn extends Tail

    /** There are whole frames behind it. */
    case object Damaged extends Tail
  }

  def frame(changes: LeaseChanges, number: Long, position: Int): Array[Byte] =
    framed(payload(changes), number, position)

  def payload(changes: LeaseChanges): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    out.writeLong(changes.savedAtWall)
    out.writeLong(changes.floor)
    out.writeInt(changes.entries.length)
    changes.entries.foreach { case (key, lease) => write(out, key, lease) }
    bytes.toByteArray
  }

  def framed(payload: Array[Byte], number: Long, position: Int): Array[Byte] =
    ByteBuffer
      .allocate(HeaderBytes + payload.length)
      .putInt(Mark)
      .putInt(payload.length)
      .putInt(checksum(number, position, payload, 0, payload.length))
      .put(payload)
      .array()

  def read(content: Array[Byte], number: Long): Read = {
    val changes = Vector.newBuilder[LeaseChanges]
    var at = 0
    var length = frameAt(content, number, at)
    while (length > 0) {
      changes += parse(content, at + HeaderBytes, length - HeaderBytes)
      at += length
      length = frameAt(content, number, at)
    }
    Read(changes.result(), at, tailAt(content, number, at))
  }

  private def tailAt(content: Array[Byte], number: Long, end: Int): Tail = {
    var last = content.length - 1
    while (last >= end && content(last) == 0) last -= 1
    if (last < end) Tail.Clean
    else if ((end + 1 to last).exists(frameAt(content, number, _) > 0)) Tail.Damaged
    else Tail.Torn
  }

  /** The length of the whole frame at that place, or 0. */
  private def frameAt(content: Array[Byte], number: Long, at: Int): Int =
    if (content.length - at < HeaderBytes) 0
    else {
      val header = ByteBuffer.wrap(content, at, HeaderBytes)
      if (header.getInt() != Mark) 0
      else {
        val (length, sum) = (header.getInt(), header.getInt())
        val isThere = length > 0 && length <= content.length - at - HeaderBytes
        if (isThere && checksum(number, at, content, at + HeaderBytes, length) == sum)
          HeaderBytes + length
        else 0
      }
    }

  private def checksum(
      number: Long,
      position: Int,
      bytes: Array[Byte],
      from: Int,
      length: Int
  ): Int = {
    val sum = new CRC32C()
    sum.update(ByteBuffer.allocate(16).putLong(number).putInt(position).putInt(length).flip())
    sum.update(bytes, from, length)
    sum.getValue.toInt
  }

  private def write(out: DataOutputStream, key: LeaseKey, lease: Option[RecordedLease]): Unit = {
    writeText(out, key.group)
    writeText(out, key.queue.topic)
    writeText(out, key.queue.brokerName)
    out.writeInt(key.queue.queueId)
    lease match {
      case None => out.writeByte(Forgotten)
      case Some(RecordedLease(epoch, None, _, _, _, _)) =>
        out.writeByte(Free)
        out.writeLong(epoch)
      case Some(RecordedLease(epoch, Some(owner), grantedAt, expiresAt, isEnded, _)) =>
        out.writeByte(if (isEnded) Ended else Held)
        out.writeLong(epoch)
        writeText(out, owner)
        out.writeLong(grantedAt)
        out.writeLong(expiresAt)
    }
  }

  private def parse(content: Array[Byte], from: Int, length: Int): LeaseChanges = {
    val in = new DataInputStream(new ByteArrayInputStream(content, from, length))
    val savedAt = in.readLong()
    val floor = in.readLong()
    val entries = Vector.fill(in.readInt())(parseEntry(in, savedAt))
    LeaseChanges(entries, floor, savedAt)
  }

  private def parseEntry(in: DataInputStream, savedAt: Long): (LeaseKey, Option[RecordedLease]) = {
    val (group, topic, broker) = (readText(in), readText(in), readText(in))
    val key = LeaseKey(group, MessageQueue(topic, broker, in.readInt()))
    val lease = in.readByte() match {
      case Forgotten => None
      case Free => Some(RecordedLease(in.readLong(), None, 0L, 0L, isEnded = false, savedAt))
      case kind @ (Held | Ended) =>
        val epoch = in.readLong()
        val owner = Some(readText(in))
        Some(RecordedLease(epoch, owner, in.readLong(), in.readLong(), kind == Ended, savedAt))
      case other => throw new IOException(s"a lease of kind $other is not known to this version")
    }
    key -> lease
  }

  private def writeText(out: DataOutputStream, text: String): Unit = {
    val bytes = text.getBytes(UTF_8)
    out.writeInt(bytes.length)
    out.write(bytes)
  }

  private def readText(in: DataInputStream): String = new String(in.readNBytes(in.readInt()), UTF_8)

  private val Mark = 0x4c454153
  private val Forgotten: Byte = 0
  private val Free: Byte = 1
  private val Held: Byte = 2
  private val Ended: Byte = 3
}
