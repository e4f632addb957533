package rmqordered.store

import java.util.Arrays

import rmqordered.protocol.{ByteSearch, PropertyMarks, RecordContent, RecordEnvelope, Slice}

/** By which of its keys a message is wanted. */
sealed trait KeyKind

object KeyKind {

  /** One of the words in KEYS, which the producer chose. */
  case object Chosen extends KeyKind

  /** UNIQ_KEY, the message id that the client made. */
  case object Unique extends KeyKind
}

/** The keys a message can be found by: this runs once per message. Pure. */
object MessageKeys {
  // A message with more words in KEYS is found by the first ones only: an index must end somewhere.
  private val MaxKeys = 64

  private val Space: Byte = ' '

  /** The hashes under which a message of that topic is indexed. */
  def hashes(topic: Array[Byte], marks: PropertyMarks): Array[Int] =
    hashes(Arrays.hashCode(topic), marks)

  /** The same for all messages of an append. A loop, not a map: this runs for every message. */
  def hashes(envelope: RecordEnvelope, contents: Vector[RecordContent]): Array[Array[Int]] = {
    val seed = Arrays.hashCode(envelope.topicBytes)
    val found = new Array[Array[Int]](contents.length)
    var i = 0
    while (i < found.length) {
      found(i) = hashes(seed, contents(i).marks)
      i += 1
    }
    found
  }

  private def hashes(seed: Int, marks: PropertyMarks): Array[Int] =
    if (marks.keys.isEmpty && marks.uniqueKey.isEmpty) Array.emptyIntArray
    // As most messages are: no words to be cut.
    else if (marks.keys.isEmpty) Array(hash(seed, marks.uniqueKey))
    else if (!marks.uniqueKey.isEmpty && isOneWord(marks.keys))
      Array(hash(seed, marks.keys), hash(seed, marks.uniqueKey))
    else {
      val words = wordsOf(marks.keys)
      val all = if (marks.uniqueKey.isEmpty) words else words :+ marks.uniqueKey
      all.map(hash(seed, _)).toArray
    }

  /** How many hashes there are. */
  def count(hashes: Array[Array[Int]]): Int = {
    var (total, i) = (0, 0)
    while (i < hashes.length) {
      total += hashes(i).length
      i += 1
    }
    total
  }

  def hash(topic: Array[Byte], key: Array[Byte]): Int = hash(Arrays.hashCode(topic), Slice(key))

  /** Whether a message has a key of that kind. */
  def contains(marks: PropertyMarks, kind: KeyKind, key: Array[Byte]): Boolean = kind match {
    case KeyKind.Unique => isEqual(marks.uniqueKey, key)
    case KeyKind.Chosen => wordsOf(marks.keys).exists(isEqual(_, key))
  }

  private def isEqual(found: Slice, key: Array[Byte]): Boolean =
    !found.isEmpty && Arrays.equals(found.bytes, found.offset, found.end, key, 0, key.length)

  /** Begins with the topic's hash: keys are looked up within a topic. */
  private def hash(seed: Int, key: Slice): Int = {
    var hash = seed
    var i = key.offset
    while (i < key.end) {
      hash = 31 * hash + key.bytes(i)
      i += 1
    }
    // Spread the high bits: slots are chosen by the low ones.
    hash ^ (hash >>> 16)
  }

  private def isOneWord(keys: Slice): Boolean =
    ByteSearch.indexOf(keys.bytes, Space, keys.offset, keys.end) == keys.end

  private def wordsOf(keys: Slice): Vector[Slice] = {
    val found = Vector.newBuilder[Slice]
    var (start, count) = (keys.offset, 0)
    while (start < keys.end && count < MaxKeys) {
      val end = ByteSearch.indexOf(keys.bytes, Space, start, keys.end)
      if (end > start) {
        found += new Slice(keys.bytes, start, end - start)
        count += 1
      }
      start = end + 1
    }
    found.result()
  }
}
