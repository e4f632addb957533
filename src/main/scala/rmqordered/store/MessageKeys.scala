package rmqordered.store

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import rmqordered.protocol.{MessageProperties, Slice}

/** By which of its keys a message is wanted. */
sealed trait KeyKind

object KeyKind {

  /** One of the words in KEYS, which the producer chose. */
  case object Chosen extends KeyKind

  /** UNIQ_KEY, the message id that the client made. */
  case object Unique extends KeyKind
}

/**
 * The keys a message can be found by, read from its encoded properties without decoding them: this
 * runs once per message. Pure.
 */
object MessageKeys {
  // A message with more words in KEYS is found by the first ones only: an index must end somewhere.
  private val MaxKeys = 64

  private val NameEnd: Byte = 1
  private val PairEnd: Byte = 2
  private val Space: Byte = ' '
  private val chosenName = "KEYS".getBytes(UTF_8)
  private val uniqueName = MessageProperties.UniqueKey.getBytes(UTF_8)

  /** The hashes under which a message of that topic is indexed. */
  def hashes(topic: Array[Byte], properties: Slice): Array[Int] = {
    val found = Array.newBuilder[Int]
    visit(properties) { (_, from, until) =>
      found += hash(topic, properties.bytes, from, until)
    }
    found.result()
  }

  /** How many hashes there are. */
  def count(hashes: Array[Array[Int]]): Int = {
    var total = 0
    hashes.foreach(found => total += found.length)
    total
  }

  def hash(topic: Array[Byte], key: Array[Byte]): Int = hash(topic, key, 0, key.length)

  /** Whether a message has a key of that kind. */
  def contains(properties: Slice, kind: KeyKind, key: Array[Byte]): Boolean = {
    var isFound = false
    visit(properties) { (found, from, until) =>
      isFound ||= found == kind && Arrays.equals(properties.bytes, from, until, key, 0, key.length)
    }
    isFound
  }

  private def hash(topic: Array[Byte], bytes: Array[Byte], from: Int, until: Int): Int = {
    // The topic first: keys are looked up within a topic.
    var hash = Arrays.hashCode(topic)
    var i = from
    while (i < until) {
      hash = 31 * hash + bytes(i)
      i += 1
    }
    // Spread the high bits: slots are chosen by the low ones.
    hash ^ (hash >>> 16)
  }

  private trait KeyVisitor {
    def apply(kind: KeyKind, from: Int, until: Int): Unit
  }

  private def visit(properties: Slice)(visitor: KeyVisitor): Unit = {
    var start = properties.offset
    while (start < properties.end) {
      val end = indexOf(properties, PairEnd, start, properties.end)
      if (isNamed(properties, start, end, uniqueName)) {
        val from = start + uniqueName.length + 1
        if (from < end) visitor(KeyKind.Unique, from, end)
      } else if (isNamed(properties, start, end, chosenName))
        visitWords(properties, start + chosenName.length + 1, end, visitor)
      start = end + 1
    }
  }

  private def visitWords(properties: Slice, from: Int, until: Int, visitor: KeyVisitor): Unit = {
    var (start, count) = (from, 0)
    while (start < until && count < MaxKeys) {
      val end = indexOf(properties, Space, start, until)
      if (end > start) {
        visitor(KeyKind.Chosen, start, end)
        count += 1
      }
      start = end + 1
    }
  }

  private def isNamed(properties: Slice, start: Int, end: Int, name: Array[Byte]): Boolean =
    end - start > name.length && properties.bytes(start + name.length) == NameEnd &&
      Arrays.equals(properties.bytes, start, start + name.length, name, 0, name.length)

  private def indexOf(properties: Slice, wanted: Byte, from: Int, until: Int): Int = {
    var at = from
    while (at < until && properties.bytes(at) != wanted) at += 1
    at
  }
}
