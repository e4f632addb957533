package rmqordered.store

/**
 * Compares the whole commit log with its seals, over and over, a little at a time: bytes that rot
 * are told of before somebody needs them.
 *
 * One thread at a time.
 */
final class LogScrub(log: CommitLog, seals: SealCheck) {

  // An append begins here, or a file; the end of the log begins it anew.
  @volatile private var next = log.minOffset

  /** Up to where this round has come. */
  def position: Long = next

  /** Looks at appends until they are so many bytes, or the log is at its end. */
  def run(maxBytes: Int): Unit = {
    if (next >= log.maxOffset || next < log.minOffset) next = log.minOffset
    var left = maxBytes.toLong
    var goOn = next < log.maxOffset
    while (goOn && left > 0) {
      goOn = log.segmentAt(next).exists { segment =>
        val at = (next - segment.baseOffset).toInt
        val end = seals.of(segment).scrub(at)
        left -= end - at
        val isFull = end >= segment.capacity - CommitLog.FillerBytes ||
          log.maxOffset >= segment.endOffset && end >= log.writtenTo(segment)
        next = if (isFull) segment.endOffset else segment.baseOffset + end
        end > at
      }
    }
  }
}
