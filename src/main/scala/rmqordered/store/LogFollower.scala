package rmqordered.store

import rmqordered.protocol.DecodedRecord

/**
 * Something that is known from the messages themselves and kept in a file of its own, such as the
 * last message of each sender. The store brings it back after a crash: recovery hands it every
 * living record that its file does not know of.
 *
 * Whoever appends tells the follower himself, under the append lock.
 */
trait LogFollower {

  /** The end of the commit log that the follower's file stands for; 0 when there is none. */
  def durableTo: Long

  /** A record at or beyond `durableTo`, in the order of the log. */
  def replay(record: DecodedRecord): Unit

  /**
   * Forgets everything, the file too, because the log turned out to end before `durableTo`, which
   * is 0 from now on: all of the log is replayed.
   */
  def startAnew(): Unit

  /**
   * Takes a picture of what the follower knows, which is everything below `logOffset`. Called under
   * the append lock, so it must be quick.
   *
   * @return
   *   writes the picture to the follower's file; called without a lock, once the log below
   *   `logOffset` is on disk
   */
  def snapshot(logOffset: Long): () => Unit
}
