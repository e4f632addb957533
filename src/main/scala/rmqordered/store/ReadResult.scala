package rmqordered.store

import rmqordered.model.MessageFilter

/**
 * What one read may cost.
 *
 * @param maxScan
 *   units looked at, matching or not, so that a filter that matches nothing stays cheap
 */
final case class ReadLimits(maxMessages: Int, maxBytes: Int, maxScan: Int)

/** Which messages of a queue are wanted. */
final case class ReadRequest(startOffset: Long, limits: ReadLimits, filter: MessageFilter)

/** RocketMQ's GetMessageStatus, as far as this store can produce it. */
sealed trait ReadStatus

object ReadStatus {
  case object Found extends ReadStatus
  case object NoMatchedMessage extends ReadStatus
  case object NoMessageInQueue extends ReadStatus
  case object OffsetTooSmall extends ReadStatus
  case object OffsetOverflowOne extends ReadStatus
  case object OffsetOverflowBadly extends ReadStatus
}

final case class ReadResult(
    status: ReadStatus,
    nextOffset: Long,
    minOffset: Long,
    maxOffset: Long,
    messages: LogSlices
)

/** What a search has come to: whether it found a message, and where it goes on if it did not. */
final case class QueueSearch(isFound: Boolean, next: Long)

/** Which message a timestamp means: the first at or after it, or the last at or before it. */
sealed trait TimeBoundary

object TimeBoundary {
  case object Lower extends TimeBoundary
  case object Upper extends TimeBoundary
}
