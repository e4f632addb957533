package rmqordered.config

/** How a send is made durable before it is acknowledged. */
sealed trait FlushDiskType

object FlushDiskType {

  /** Acknowledge after the bytes are on disk; concurrent sends share one flush. */
  case object Sync extends FlushDiskType

  /**
   * Acknowledge after the bytes are in the page cache: safe against kill -9, not a power failure.
   */
  case object Async extends FlushDiskType
}
