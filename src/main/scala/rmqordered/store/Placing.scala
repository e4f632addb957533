package rmqordered.store

import rmqordered.model.QueueKey
import rmqordered.protocol.{RecordContent, RecordEnvelope}
import rmqordered.util.Clock

/** Where the records of one append went. */
final case class Placed(queue: ConsumeQueue, first: Long, offsets: Array[Long]) {
  def end: Long = first + offsets.length
}

/**
 * Puts records at the end of the log, of their queue and of the index, and says when they were
 * stored: at a time that never goes back.
 *
 * Thread-safety: under the store's append lock, but for `keyHashes`.
 *
 * @param isIndexed
 *   whether messages can be found by key
 */
private[store] final class Placing(
    parts: OpenedStore,
    ahead: ClaimAhead,
    clock: Clock,
    isIndexed: Boolean
) {
  import parts.{index, log, queues}

  private var newest = parts.storeTimestamp

  /** The newest store time given out. */
  def lastStoreTimestamp: Long = newest

  /** What the index has to know of messages; takes time, so it is done before the lock is taken. */
  def keyHashes(envelope: RecordEnvelope, contents: Vector[RecordContent]): Array[Array[Int]] =
    if (isIndexed) MessageKeys.hashes(envelope, contents) else Array.empty

  def place(
      envelope: RecordEnvelope,
      contents: Vector[RecordContent],
      hashes: Array[Array[Int]]
  ): Placed = {
    val queue = queues.getOrCreate(QueueKey(envelope.topic, envelope.queueId))
    // Room for the indexes first: once the log has the records there is no way back.
    queue.ensureRoom(contents.length)
    index.ensureRoom(MessageKeys.count(hashes), log.maxOffset)
    newest = Math.max(newest, clock.wallMillis())
    val first = queue.nextOffset
    val appended = log.append(envelope, contents, first, newest)
    ahead.appended()
    var i = 0
    while (i < contents.length) {
      queue.append(appended.offsets(i), appended.sizes(i), contents(i).tagsCode)
      if (isIndexed) index.add(hashes(i), appended.offsets(i))
      i += 1
    }
    Placed(queue, first, appended.offsets)
  }
}
