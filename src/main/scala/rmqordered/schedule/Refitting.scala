package rmqordered.schedule

import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.protocol.{MessageProperties, RecordContent, Slice, StoredRecord}

/**
 * Messages that are stored again get properties of the broker's own, and may have no room for them:
 * a record holds 32,767 bytes of properties, and the first send may have used them all. Text that
 * is decoded and encoded again may grow as well.
 *
 * What the broker adds is a convenience, the message is not: what does not fit is left out.
 */
object Refitting {

  /** The first of the wanted properties that fit, or else those the message has. */
  def again(stored: RecordContent, wanted: Iterable[(String, String)]*): RecordContent =
    wanted.iterator
      .map(encode)
      .find(fits)
      .fold(stored)(properties => new RecordContent(stored.flag, stored.body, properties))

  /** Properties as they are stored, if they can be. */
  def fitting(wanted: Iterable[(String, String)]): Option[Slice] = Some(encode(wanted)).filter(fits)

  /** Whether properties leave so many bytes for what is added when the message is handed out. */
  def leave(room: Int, properties: Iterable[(String, String)]): Boolean =
    encode(properties).length <= StoredRecord.MaxPropertiesBytes - room

  private def encode(properties: Iterable[(String, String)]): Slice =
    Slice(MessageProperties.encode(properties).getBytes(UTF_8))

  private def fits(properties: Slice): Boolean =
    properties.length <= StoredRecord.MaxPropertiesBytes
}
