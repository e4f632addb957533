package rmqordered.store

import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.dedup.{RunStamp, SendStamp}
import rmqordered.model.QueueKey
import rmqordered.protocol.DecodedRecord
import rmqordered.util.WorkTurn

/**
 * Messages of a topic with a key, stored from `begin` to `end` inclusive, at most `limit` and so
 * many bytes, but one message of any size.
 */
final case class KeyQuery(
    topic: String,
    key: String,
    kind: KeyKind,
    limit: Int,
    begin: Long = 0L,
    end: Long = Long.MaxValue,
    maxBytes: Long = Long.MaxValue
)

/** A query on its way, over one turn or more. For one thread at a time. */
final class KeySearch(val query: KeyQuery) {
  import KeySearch._

  private[store] val key = query.key.getBytes(UTF_8)
  private[store] val cursor = new KeyCursor(MessageKeys.hash(query.topic.getBytes(UTF_8), key))
  private var places = Vector.empty[Long]
  private var looked = 0
  private var bytes = 0L

  private[store] def found: Vector[Long] = places

  private[store] def lookedAt(): Unit = looked += 1

  private[store] def take(place: Long, size: Int): Unit = {
    bytes += size
    if (places.isEmpty || bytes <= query.maxBytes) places :+= place
  }

  private[store] def isSatisfied: Boolean =
    places.length >= query.limit || bytes >= query.maxBytes || looked >= MaxLookedAt
}

object KeySearch {

  // Messages looked at for one query: a key that a million messages share must stay cheap.
  private val MaxLookedAt = 10000
}

/**
 * Finds single messages: by their place in the commit log, by key. Both a place that a client names
 * and one from the key index are claims: a record is believed only when its queue points back at
 * it. Bytes inside a body may look like a record, even like one that says it stands there. A record
 * of an append that does not match its seal is not found.
 *
 * Thread-safe; takes no lock, but for `stampAt`.
 */
final class MessageLookup(
    log: CommitLog,
    queues: QueueTable,
    index: KeyIndex,
    seals: SealCheck
) {

  /** The message at a place, if one that can be read starts exactly there. */
  def messageAt(commitLogOffset: Long): Option[LogSlices] =
    recordAt(commitLogOffset).map(_ => slices(Vector(commitLogOffset)))

  /** Takes a search one turn further; the messages, newest first, when it has come to its end. */
  def advance(search: KeySearch, turn: WorkTurn): Option[LogSlices] = {
    val isAtEnd = index.lookUp(search.cursor, turn) { commitLogOffset =>
      recordAt(commitLogOffset).foreach { record =>
        // Taken apart whole, its checksum included.
        turn.lookedInto(record.size)
        if (isWanted(search.query, search.key, record)) search.take(commitLogOffset, record.size)
      }
      search.lookedAt()
      !search.isSatisfied
    }
    Option.when(isAtEnd || search.isSatisfied)(slices(search.found))
  }

  private def isWanted(query: KeyQuery, key: Array[Byte], record: DecodedRecord): Boolean = {
    val time = record.position.storeTimestamp
    record.envelope.topic == query.topic && time >= query.begin && time <= query.end &&
    MessageKeys.contains(record.content.marks, query.kind, key)
  }

  /** The same, taken apart. */
  def recordAt(commitLogOffset: Long): Option[DecodedRecord] =
    for {
      segment <- log.segmentAt(commitLogOffset)
      at = (commitLogOffset - segment.baseOffset).toInt
      record <- LogRecords.at(segment, at, commitLogOffset)
      queue <- queues.get(QueueKey(record.envelope.topic, record.envelope.queueId))
      queueOffset = record.position.queueOffset
      if queueOffset >= queue.minOffset && queueOffset < queue.maxOffset
      if queue.commitLogOffset(queueOffset) == commitLogOffset
      if seals.isGood(segment, at, record.size)
    } yield record

  /** The stamp that a message of a queue carries, readable yet or not. Under the append lock. */
  def stampAt(key: QueueKey, queueOffset: Long): Option[SendStamp] =
    for {
      queue <- queues.get(key)
      if queueOffset >= queue.minOffset && queueOffset < queue.nextOffset
      at = queue.commitLogOffset(queueOffset)
      segment <- log.segmentAt(at)
      position = (at - segment.baseOffset).toInt
      record <- LogRecords.at(segment, position, at)
      if seals.isGood(segment, position, record.size)
      run <- RunStamp.of(record)
    } yield run.last

  private def slices(offsets: Vector[Long]): LogSlices = {
    val found = new LogSlices.Builder
    for {
      offset <- offsets
      segment <- log.segmentAt(offset)
    } {
      val at = (offset - segment.baseOffset).toInt
      found.add(segment, at, segment.bytes.getInt(at))
    }
    found.result()
  }
}
