package rmqordered.store

/** What became of an append. */
sealed trait AppendOutcome

object AppendOutcome {

  /** Stored and as durable as configured; offsets by message, in order. */
  final case class Stored(queueOffset: Long, commitLogOffsets: Array[Long]) extends AppendOutcome
  final case class TooLarge(bytes: Long, limit: Int) extends AppendOutcome

  /** Nothing was acknowledged; the sentence says why. */
  final case class Unavailable(reason: String) extends AppendOutcome
}
