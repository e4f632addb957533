package rmqordered.dedup

import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.protocol.{DecodedRecord, RecordContent}

/**
 * What a stored record tells of its stream: its own stamp, and how many messages that landed
 * together end with it.
 *
 * {{{
 * RMQO_STAMP = sink/batch/partition/sequence/digest            a message that came with its stamp
 * RMQO_STAMP = sink/batch/partition/sequence/digest/count      the last one of an append
 * }}}
 *
 * The second form is the broker's own: a stamp that came once per request is stored once per
 * append. An append is there as a whole or not at all, so its last record speaks for all of it.
 */
final case class RunStamp(last: SendStamp, count: Int) {
  def firstSequence: Long = last.sequence - count + 1

  /** A message as it is stored when it is the last one of its append. */
  def on(content: RecordContent): RecordContent =
    content.withProperty(SendStamp.PropertyName, s"${last.text}/$count".getBytes(UTF_8))
}

object RunStamp {
  private val Separator = '/'

  /** What a stored message tells, if anything. */
  def of(record: DecodedRecord): Option[RunStamp] = {
    val stamp = record.content.marks.stamp
    if (stamp.isEmpty) None else parse(stamp.text)
  }

  def parse(text: String): Option[RunStamp] =
    SendStamp.parse(text).toOption.map(RunStamp(_, 1)).orElse {
      val at = text.lastIndexOf(Separator.toInt)
      for {
        last <- SendStamp.parse(text.take(at)).toOption
        count <- SendStamp.number(text.drop(at + 1))
        if count >= 1 && count <= last.sequence + 1 && count <= Int.MaxValue
      } yield RunStamp(last, count.toInt)
    }
}
