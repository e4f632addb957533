package rmqordered.protocol

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

/**
 * The properties that the broker itself looks at, found in a message's encoded ones in one pass and
 * without decoding them: this runs once per message. Empty where there is no such property; of a
 * repeated one the last counts.
 */
final class PropertyMarks private (
    val tags: Slice,
    val keys: Slice,
    val uniqueKey: Slice,
    val stamp: Slice
)

object PropertyMarks {
  import MessageProperties.{NameEnd, PairEnd}

  private val tagsName = MessageProperties.Tags.getBytes(UTF_8)
  private val keysName = MessageProperties.Keys.getBytes(UTF_8)
  private val uniqueKeyName = MessageProperties.UniqueKey.getBytes(UTF_8)
  private val stampName = MessageProperties.SendStamp.getBytes(UTF_8)

  def of(properties: Slice): PropertyMarks = {
    var (tags, keys, uniqueKey, stamp) = (Slice.empty, Slice.empty, Slice.empty, Slice.empty)
    var start = properties.offset
    while (start < properties.end) {
      val end = ByteSearch.indexOf(properties.bytes, PairEnd, start, properties.end)
      // The first letter tells them apart, and most other properties from all of them.
      properties.bytes(start) match {
        case 'T' => tags = value(properties, tagsName, start, end, tags)
        case 'K' => keys = value(properties, keysName, start, end, keys)
        case 'U' => uniqueKey = value(properties, uniqueKeyName, start, end, uniqueKey)
        case 'R' => stamp = value(properties, stampName, start, end, stamp)
        case _ => ()
      }
      start = end + 1
    }
    new PropertyMarks(tags, keys, uniqueKey, stamp)
  }

  private def value(
      properties: Slice,
      name: Array[Byte],
      start: Int,
      end: Int,
      otherwise: Slice
  ): Slice = {
    val from = start + name.length + 1
    val isNamed = from < end && properties.bytes(from - 1) == NameEnd &&
      Arrays.equals(properties.bytes, start, from - 1, name, 0, name.length)
    if (isNamed) new Slice(properties.bytes, from, end - from) else otherwise
  }
}
