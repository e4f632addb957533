package rmqordered.store

import rmqordered.protocol.{RecordContent, RecordEnvelope, StoredRecord}

/** What became of an append. */
sealed trait AppendOutcome

object AppendOutcome {

  /** Stored and as durable as configured; offsets by message, in order. */
  final case class Stored(queueOffset: Long, commitLogOffsets: Array[Long]) extends AppendOutcome

  /** Nothing was appended, nor would a repetition be: whoever appends has to do something else. */
  sealed trait Impossible extends AppendOutcome {
    def reason: String
  }

  final case class TooLarge(bytes: Long, limit: Int) extends Impossible {
    override def reason: String = s"$bytes bytes stored, at most $limit allowed"
  }

  /** A record's length field for its properties could not hold so many. */
  final case class PropertiesTooLong(bytes: Int, limit: Int) extends Impossible {
    override def reason: String = s"$bytes bytes of properties, at most $limit allowed"
  }

  /** The topic was deleted, perhaps since somebody looked. */
  final case class NoTopic(topic: String) extends Impossible {
    override def reason: String = s"topic[$topic] not exist"
  }

  /** Nothing was acknowledged; the sentence says why. */
  final case class Unavailable(reason: String) extends AppendOutcome

  /** Why records cannot be written so that recovery could read them, if that is so. */
  def impossible(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      maxAppendBytes: Int
  ): Option[Impossible] = {
    require(contents.nonEmpty, "an append without records")
    val bytes = StoredRecord.totalSize(envelope, contents)
    val longest = longestProperties(contents)
    val limit = StoredRecord.MaxPropertiesBytes
    if (bytes > maxAppendBytes) Some(TooLarge(bytes, maxAppendBytes))
    else Option.when(longest > limit)(PropertiesTooLong(longest, limit))
  }

  // A loop, not a map: this runs for every message.
  private def longestProperties(contents: Vector[RecordContent]): Int = {
    var (longest, i) = (0, 0)
    while (i < contents.length) {
      longest = Math.max(longest, contents(i).properties.length)
      i += 1
    }
    longest
  }
}
