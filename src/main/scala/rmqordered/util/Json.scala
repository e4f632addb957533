package rmqordered.util

import com.fasterxml.jackson.core.json.JsonReadFeature
import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory, ObjectNode}

/**
 * JSON trees for request bodies and small files. Written strictly, with keys in alphabetical order
 * as RocketMQ's own library does; read a little more tolerantly, because peers are not strict.
 *
 * Not for the hot path: frame headers have their own streaming codec.
 */
object Json {
  private val mapper: JsonMapper = JsonMapper
    .builder()
    .enable(JsonReadFeature.ALLOW_UNQUOTED_FIELD_NAMES, JsonReadFeature.ALLOW_SINGLE_QUOTES)
    .enable(JsonNodeFeature.WRITE_PROPERTIES_SORTED)
    .build()

  def obj(): ObjectNode = JsonNodeFactory.instance.objectNode()

  def arr(): ArrayNode = JsonNodeFactory.instance.arrayNode()

  def texts(values: Iterable[String]): ArrayNode = {
    val node = arr()
    values.foreach(value => node.add(value))
    node
  }

  def bytes(node: JsonNode): Array[Byte] = mapper.writeValueAsBytes(node)

  def text(node: JsonNode): String = mapper.writeValueAsString(node)

  /**
   * Reads a table's file, if it exists.
   *
   * @throws java.io.IOException
   *   naming the file when it does not hold a JSON object
   */
  def read(file: SmallFile): Option[ObjectNode] =
    file.read().map { content =>
      try parseObject(content)
      catch {
        case error: java.io.IOException =>
          val problem = Option(error.getMessage).flatMap(_.linesIterator.nextOption()).getOrElse("")
          throw new java.io.IOException(s"The file ${file.name} is damaged: $problem.", error)
      }
    }

  /**
   * Parses a document whose root is an object.
   *
   * @throws java.io.IOException
   *   when the text is not JSON or its root is not an object
   */
  def parseObject(content: Array[Byte]): ObjectNode = mapper.readTree(content) match {
    case node: ObjectNode => node
    case other =>
      val found =
        if (other == null || other.isMissingNode) "nothing" else other.getNodeType.toString
      throw new java.io.IOException(s"expected a JSON object, found $found")
  }
}
