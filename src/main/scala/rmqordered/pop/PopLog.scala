package rmqordered.pop

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.io.IOException
import java.util.zip.CRC32

import org.slf4j.LoggerFactory

import rmqordered.model.{HostAddress, Names}
import rmqordered.protocol.{DecodedRecord, RecordContent, RecordEnvelope, Slice}
import rmqordered.store.{AppendOutcome, LogFollower, MessageStore}
import rmqordered.util.SmallFile

/** The journal as messages of the commit log, in a topic of its own. */
final class LogJournal(store: MessageStore, host: HostAddress) extends PopJournal {
  private val envelope = RecordEnvelope(Names.PopLogTopic, 0, 0, 0L, host, host, 0)
  private val noProperties = Slice(Array.emptyByteArray)

  override def append(record: PopRecord)(done: Option[String] => Unit): Unit = {
    val content = new RecordContent(0, Slice(PopRecord.encode(record)), noProperties)
    store.append(envelope, Vector(content)) {
      case _: AppendOutcome.Stored => done(None)
      case refused: AppendOutcome.Impossible =>
        done(Some(s"a pop cannot be recorded: ${refused.reason}"))
      case AppendOutcome.Unavailable(reason) => done(Some(reason))
    }
  }
}

/**
 * Brings the table back together with the store: from a picture taken with the store's checkpoint,
 * and the records that came after it.
 *
 * {{{
 * i32 magic | i32 version | i64 valid to | i32 count | records | i32 CRC-32 of all before
 * }}}
 */
final class PopFollower(table: PopTable, file: SmallFile) extends LogFollower {
  import PopFollower._

  private var validTo = load()

  override def durableTo: Long = validTo

  override def replay(record: DecodedRecord): Unit =
    if (record.envelope.topic == Names.PopLogTopic)
      PopRecord.decode(record.content.body.toArray) match {
        case Right(change) => table.replay(change)
        case Left(problem) =>
          logger.error("a pop's record cannot be read at={} problem={}", record.position, problem)
      }

  override def startAnew(): Unit = {
    table.clear()
    validTo = 0L
  }

  /**
   * The picture is taken later, without the append lock, and may hold more than it claims: records
   * can be applied again.
   */
  override def snapshot(logOffset: Long): () => Unit = { () =>
    val bytes = encode(logOffset)
    file.replace(bytes)
  }

  /**
   * At a start: takes back what the log does not hold, and replaces the picture at once. It may
   * know pops of messages that a power failure took, and other messages are about to get their
   * offsets.
   *
   * @throws java.io.IOException
   *   when the picture cannot be replaced
   */
  def clampTo(store: MessageStore): Unit =
    if (table.clampTo(store.maxOffset)) snapshot(store.logEnd)()

  private def encode(logOffset: Long): Array[Byte] = {
    val records = table.states.flatMap(_.records).toVector
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    out.writeInt(Magic)
    out.writeInt(Version)
    out.writeLong(logOffset)
    out.writeInt(records.length)
    records.foreach(PopRecord.write(out, _))
    out.writeInt(crcOf(bytes.toByteArray, bytes.size()))
    bytes.toByteArray
  }

  private def load(): Long = file.read().fold(0L) { bytes =>
    decode(bytes) match {
      case Right((end, records)) =>
        records.foreach(table.replay)
        end
      case Left(problem) =>
        logger.error(
          "what is popped is read from the log again file={} problem={}",
          file.name,
          problem
        )
        0L
    }
  }

  private def decode(bytes: Array[Byte]): Either[String, (Long, Vector[PopRecord])] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    try {
      val body = bytes.length - CrcBytes
      if (body < 0) Left("it is too short")
      else if (in.readInt() != Magic || in.readInt() != Version) Left("it is no picture of pops")
      else if (java.nio.ByteBuffer.wrap(bytes).getInt(body) != crcOf(bytes, body))
        Left("its checksum is wrong")
      else {
        val end = in.readLong()
        val records = Vector.fill(in.readInt())(PopRecord.read(in))
        records.collectFirst { case Left(problem) => problem }
          .toLeft((end, records.collect { case Right(record) => record }))
      }
    } catch { case error: IOException => Left(s"it ends too early ($error)") }
  }
}

object PopFollower {
  private val logger = LoggerFactory.getLogger(classOf[PopFollower])
  private val Magic = 0x524d5150
  private val Version = 1
  private val CrcBytes = 4

  private def crcOf(bytes: Array[Byte], length: Int): Int = {
    val crc = new CRC32()
    crc.update(bytes, 0, length)
    crc.getValue.toInt
  }
}
