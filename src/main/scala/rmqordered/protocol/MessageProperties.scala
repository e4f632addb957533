package rmqordered.protocol

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.immutable.VectorMap

import rmqordered.model.TagFilter

/**
 * A message's properties as RocketMQ writes them: `name` 0x01 `value` 0x02, repeated. There is no
 * escaping. A missing final 0x02 is tolerated; of a repeated name the last value counts.
 */
object MessageProperties {
  val Tags = "TAGS"
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

  private val NameEnd = 1
  private val PairEnd = 2
  private val tagsName: Array[Byte] = Tags.getBytes(UTF_8)

  /**
   * The properties in the order of their first appearance. Pairs without name or value are dropped.
   */
  def decode(text: String): VectorMap[String, String] =
    text.split(PairEnd.toChar).foldLeft(VectorMap.empty[String, String]) { (found, pair) =>
      val separator = pair.indexOf(NameEnd)
      if (separator <= 0 || separator == pair.length - 1) found
      else found.updated(pair.substring(0, separator), pair.substring(separator + 1))
    }

  def encode(properties: Iterable[(String, String)]): String = {
    val out = new StringBuilder
    properties.foreach { case (name, value) =>
      out.append(name).append(NameEnd.toChar).append(value).append(PairEnd.toChar)
    }
    out.toString
  }

  /**
   * The tag code of encoded properties, without decoding the rest: this runs once per message of a
   * batch and once per record of recovery.
   */
  def tagsCode(properties: Slice): Long = find(properties, tagsName).fold(0L)(TagFilter.tagsCode)

  /**
   * One property of encoded ones, without decoding the rest; as in `decode` the last one counts.
   */
  def find(properties: Slice, name: String): Option[String] = find(properties, name.getBytes(UTF_8))

  /** The same for whoever looks into many messages. */
  def find(properties: Slice, name: Array[Byte]): Option[String] =
    findBytes(properties, name).map(value =>
      new String(value.bytes, value.offset, value.length, UTF_8)
    )

  /** The same without decoding the value. */
  def findBytes(properties: Slice, name: Array[Byte]): Option[Slice] = {
    var found: Option[Slice] = None
    var start = properties.offset
    while (start < properties.end) {
      val end = indexOf(properties, PairEnd, start)
      val valueStart = start + name.length + 1
      if (valueStart < end && isNamed(properties, start, name))
        found = Some(new Slice(properties.bytes, valueStart, end - valueStart))
      start = end + 1
    }
    found
  }

  private def isNamed(properties: Slice, start: Int, name: Array[Byte]): Boolean =
    properties.bytes(start + name.length) == NameEnd &&
      java.util.Arrays.equals(properties.bytes, start, start + name.length, name, 0, name.length)

  private def indexOf(properties: Slice, wanted: Int, from: Int): Int = {
    var at = from
    while (at < properties.end && properties.bytes(at) != wanted) at += 1
    at
  }
}
