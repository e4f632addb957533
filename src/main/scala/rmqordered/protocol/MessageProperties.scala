package rmqordered.protocol

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.immutable.VectorMap

/**
 * A message's properties as RocketMQ writes them: `name` 0x01 `value` 0x02, repeated. There is no
 * escaping. A missing final 0x02 is tolerated; of a repeated name the last value counts.
 */
object MessageProperties {
  val Tags = "TAGS"
  val Keys = "KEYS"
  val Delay = "DELAY"
  val UniqueKey = "UNIQ_KEY"
  val Cluster = "CLUSTER"
  val MsgRegion = "MSG_REGION"
  val TraceOn = "TRACE_ON"
  val PopCheckpoint = "POP_CK"
  val FirstPopTime = "1ST_POP_TIME"
  val TransactionPrepared = "TRAN_MSG"
  val TimerDeliverMs = "TIMER_DELIVER_MS"
  val TimerDelaySec = "TIMER_DELAY_SEC"
  val TimerDelayMs = "TIMER_DELAY_MS"
  val TimerOutMs = "TIMER_OUT_MS"
  val RealTopic = "REAL_TOPIC"
  val RealQueueId = "REAL_QID"
  val RetryTopic = "RETRY_TOPIC"
  val OriginMessageId = "ORIGIN_MESSAGE_ID"
  val Wait = "WAIT"

  /** Who sent a message, and which of his it is: `dedup.SendStamp`. */
  val SendStamp = "RMQO_STAMP"

  private[protocol] val NameEnd: Byte = 1
  private[protocol] val PairEnd: Byte = 2

  /**
   * The properties in the order of their first appearance. Pairs without name or value are dropped.
   */
  def decode(text: String): VectorMap[String, String] =
    text.split(PairEnd.toChar).foldLeft(VectorMap.empty[String, String]) { (found, pair) =>
      val separator = pair.indexOf(NameEnd.toInt)
      if (separator <= 0 || separator == pair.length - 1) found
      else found.updated(pair.substring(0, separator), pair.substring(separator + 1))
    }

  /**
   * Those of encoded properties that have one of the names; the others are not decoded. From the
   * end, where the last of a repeated name is, and no further than to the last one needed.
   */
  def select(properties: Slice, names: Set[String]): Map[String, String] = {
    val bytes = properties.bytes
    val longest = names.iterator.map(_.getBytes(UTF_8).length).maxOption.getOrElse(0)
    var found = Map.empty[String, String]
    var end = properties.end
    while (end > properties.offset && found.size < names.size) {
      var start = end
      while (start > properties.offset && bytes(start - 1) != PairEnd) start -= 1
      val limit = Math.min(end, start + longest + 1)
      val separator = ByteSearch.indexOf(bytes, NameEnd, start, limit)
      if (separator > start && separator < limit && separator < end - 1) {
        val name = new String(bytes, start, separator - start, UTF_8)
        if (names.contains(name) && !found.contains(name))
          found += name -> new String(bytes, separator + 1, end - separator - 1, UTF_8)
      }
      end = start - 1
    }
    found
  }

  /** Encoded properties and one more behind them. */
  def appended(properties: Slice, name: String, value: Array[Byte]): Slice = {
    val isOpen = !properties.isEmpty && properties.bytes(properties.end - 1) != PairEnd
    val nameBytes = name.getBytes(UTF_8)
    val added = nameBytes.length + value.length + 2 + (if (isOpen) 1 else 0)
    val out = ByteBuffer.allocate(properties.length + added)
    out.put(properties.bytes, properties.offset, properties.length)
    if (isOpen) out.put(PairEnd)
    out.put(nameBytes).put(NameEnd).put(value).put(PairEnd)
    Slice(out.array())
  }

  def encode(properties: Iterable[(String, String)]): String = {
    val out = new StringBuilder
    properties.foreach { case (name, value) =>
      out.append(name).append(NameEnd.toChar).append(value).append(PairEnd.toChar)
    }
    out.toString
  }
}
