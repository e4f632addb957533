package rmqordered.pop

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  DataInputStream,
  DataOutputStream,
  IOException
}

import rmqordered.model.QueueKey
import rmqordered.offset.OffsetKey

/**
 * One change of one queue's pops, as it is kept in the journal. Applying a record again, with all
 * that came after it, changes nothing: so a picture of the state may be newer than it claims.
 */
sealed trait PopRecord {
  def key: OffsetKey
}

object PopRecord {

  /** Messages went out, and the next ones begin at `next`. */
  final case class Popped(key: OffsetKey, checkPoint: CheckPoint, next: Long) extends PopRecord

  /** Messages of a check point came to their end. */
  final case class Settled(key: OffsetKey, id: CheckPointId, bits: Long) extends PopRecord

  /** A message left its check point for one of its own, with another time. */
  final case class Changed(key: OffsetKey, id: CheckPointId, bits: Long, to: CheckPoint)
      extends PopRecord

  /** The queue goes on elsewhere, and what an orderly pop handed out is forgotten. */
  final case class Moved(key: OffsetKey, next: Long) extends PopRecord

  /** What orderly pops know. */
  final case class Ordered(key: OffsetKey, next: Long, batch: Option[OrderBatch]) extends PopRecord

  /** The topic or the group is gone. */
  final case class Forgotten(key: OffsetKey) extends PopRecord

  private val PoppedKind = 1
  private val SettledKind = 2
  private val ChangedKind = 3
  private val MovedKind = 4
  private val OrderedKind = 5
  private val ForgottenKind = 6

  def encode(record: PopRecord): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(96)
    write(new DataOutputStream(bytes), record)
    bytes.toByteArray
  }

  /** The record, or what is wrong with the bytes. */
  def decode(bytes: Array[Byte]): Either[String, PopRecord] =
    try read(new DataInputStream(new ByteArrayInputStream(bytes)))
    catch { case error: IOException => Left(s"it ends too early ($error)") }

  def write(out: DataOutputStream, record: PopRecord): Unit = {
    def start(kind: Int): Unit = {
      out.writeByte(kind)
      out.writeUTF(record.key.group)
      out.writeUTF(record.key.queue.topic)
      out.writeInt(record.key.queue.queueId)
    }
    record match {
      case Popped(_, checkPoint, next) =>
        start(PoppedKind)
        writeCheckPoint(out, checkPoint)
        out.writeLong(next)
      case Settled(_, id, bits) =>
        start(SettledKind)
        writeId(out, id)
        out.writeLong(bits)
      case Changed(_, id, bits, to) =>
        start(ChangedKind)
        writeId(out, id)
        out.writeLong(bits)
        writeCheckPoint(out, to)
      case Moved(_, next) =>
        start(MovedKind)
        out.writeLong(next)
      case Ordered(_, next, batch) =>
        start(OrderedKind)
        out.writeLong(next)
        out.writeBoolean(batch.isDefined)
        batch.foreach(writeBatch(out, _))
      case Forgotten(_) => start(ForgottenKind)
    }
  }

  def read(in: DataInputStream): Either[String, PopRecord] = {
    val kind = in.readByte().toInt
    val key = OffsetKey(in.readUTF(), QueueKey(in.readUTF(), in.readInt()))
    kind match {
      case PoppedKind => Right(Popped(key, readCheckPoint(in), in.readLong()))
      case SettledKind => Right(Settled(key, readId(in), in.readLong()))
      case ChangedKind => Right(Changed(key, readId(in), in.readLong(), readCheckPoint(in)))
      case MovedKind => Right(Moved(key, in.readLong()))
      case OrderedKind =>
        Right(Ordered(key, in.readLong(), Option.when(in.readBoolean())(readBatch(in))))
      case ForgottenKind => Right(Forgotten(key))
      case other => Left(s"its kind $other is unknown")
    }
  }

  private def writeId(out: DataOutputStream, id: CheckPointId): Unit = {
    out.writeLong(id.startOffset)
    out.writeLong(id.popTime)
  }

  private def readId(in: DataInputStream): CheckPointId = CheckPointId(in.readLong(), in.readLong())

  private def writeCheckPoint(out: DataOutputStream, point: CheckPoint): Unit = {
    writeId(out, point.id)
    out.writeLong(point.invisibleMs)
    out.writeBoolean(point.isChosen)
    writeLongs(out, point.offsets)
    out.writeLong(point.settled)
  }

  private def readCheckPoint(in: DataInputStream): CheckPoint = {
    val (id, invisibleMs, isChosen) = (readId(in), in.readLong(), in.readBoolean())
    CheckPoint(id, invisibleMs, readLongs(in), in.readLong(), isChosen)
  }

  private def writeBatch(out: DataOutputStream, batch: OrderBatch): Unit = {
    out.writeLong(batch.popTime)
    out.writeLong(batch.invisibleMs)
    writeLongs(out, batch.offsets)
    out.writeLong(batch.settled)
    writeLongs(out, batch.hidden.flatMap { case (offset, time) => Seq(offset, time) })
    writeLongs(
      out,
      batch.counts.flatMap { case (offset, count) => Seq(offset, count.toLong) }.toSeq
    )
    writeLongs(out, batch.ahead)
    out.writeUTF(batch.attemptId.getOrElse(""))
  }

  private def readBatch(in: DataInputStream): OrderBatch = {
    def pairs(): Map[Long, Long] = readLongs(in).grouped(2).map(pair => pair(0) -> pair(1)).toMap
    OrderBatch(
      in.readLong(),
      in.readLong(),
      readLongs(in),
      in.readLong(),
      pairs(),
      pairs().map { case (offset, count) => offset -> count.toInt },
      readLongs(in).toSet,
      Some(in.readUTF()).filter(_.nonEmpty)
    )
  }

  private def writeLongs(out: DataOutputStream, values: Iterable[Long]): Unit = {
    out.writeInt(values.size)
    values.foreach(value => out.writeLong(value))
  }

  private def readLongs(in: DataInputStream): Vector[Long] = {
    val count = in.readInt()
    // No list is longer than what is left to read.
    if (count < 0 || count > in.available()) throw new IOException(s"a list of $count numbers")
    Vector.fill(count)(in.readLong())
  }
}
