package rmqordered.lease

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  DataInputStream,
  DataOutputStream,
  IOException
}

import rmqordered.model.MessageQueue

/** One change of the table of runs, as it is kept on disk. Times are the wall clock's. */
private[lease] sealed trait RunEvent {
  def run: String
}

private[lease] object RunEvent {

  /** A run reads under a lease. */
  final case class Named(run: String, user: String, grant: GrantedQueue) extends RunEvent

  /** The run gave the lease back itself, and goes on without. */
  final case class GivenBack(run: String, grant: GrantedQueue, atWall: Long) extends RunEvent

  /** The lease ended under the run. */
  final case class Lost(run: String, grant: GrantedQueue, atWall: Long) extends RunEvent

  /** What is left of a run that ended. */
  final case class Ended(run: String, user: String, lost: Option[GrantedQueue], atWall: Long)
      extends RunEvent

  final case class Forgotten(run: String) extends RunEvent

  private val NamedKind = 1
  private val GivenBackKind = 2
  private val LostKind = 3
  private val EndedKind = 4
  private val ForgottenKind = 5

  def encode(event: RunEvent): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(160)
    val out = new DataOutputStream(bytes)
    def start(kind: Int, run: String): Unit = {
      out.writeByte(kind)
      out.writeUTF(run)
    }
    event match {
      case Named(run, user, grant) =>
        start(NamedKind, run)
        out.writeUTF(user)
        write(out, grant)
      case GivenBack(run, grant, atWall) =>
        start(GivenBackKind, run)
        write(out, grant)
        out.writeLong(atWall)
      case Lost(run, grant, atWall) =>
        start(LostKind, run)
        write(out, grant)
        out.writeLong(atWall)
      case Ended(run, user, lost, atWall) =>
        start(EndedKind, run)
        out.writeUTF(user)
        out.writeBoolean(lost.isDefined)
        lost.foreach(write(out, _))
        out.writeLong(atWall)
      case Forgotten(run) => start(ForgottenKind, run)
    }
    bytes.toByteArray
  }

  /** @throws IOException when these are not the bytes of an event */
  def decode(bytes: Array[Byte]): RunEvent = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    val kind = in.readByte().toInt
    val run = in.readUTF()
    kind match {
      case NamedKind => Named(run, in.readUTF(), readGrant(in))
      case GivenBackKind => GivenBack(run, readGrant(in), in.readLong())
      case LostKind => Lost(run, readGrant(in), in.readLong())
      case EndedKind =>
        val user = in.readUTF()
        val lost = if (in.readBoolean()) Some(readGrant(in)) else None
        Ended(run, user, lost, in.readLong())
      case ForgottenKind => Forgotten(run)
      case other => throw new IOException(s"a record of kind 1 to 5 is expected, found $other")
    }
  }

  private def write(out: DataOutputStream, grant: GrantedQueue): Unit = {
    out.writeUTF(grant.key.group)
    out.writeUTF(grant.key.queue.topic)
    out.writeUTF(grant.key.queue.brokerName)
    out.writeInt(grant.key.queue.queueId)
    out.writeLong(grant.epoch)
  }

  private def readGrant(in: DataInputStream): GrantedQueue = {
    val group = in.readUTF()
    val queue = MessageQueue(in.readUTF(), in.readUTF(), in.readInt())
    GrantedQueue(LeaseKey(group, queue), in.readLong())
  }
}
