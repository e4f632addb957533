package rmqordered.util

import com.fasterxml.jackson.core.json.JsonReadFeature
import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory, ObjectNode}
import org.slf4j.LoggerFactory

import scala.util.{Failure, Success, Try}

/**
 * JSON trees for request bodies and small files. Written strictly, with keys in alphabetical order
 * as RocketMQ's own library does; read a little more tolerantly, because peers are not strict.
 *
 * Not for the hot path: frame headers have their own streaming codec.
 */
object Json {
  private val logger = LoggerFactory.getLogger("rmqordered.util.Json")
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
   * Reads a table's file, if it exists. When it is damaged or gone and its previous version is
   * good, that one takes its place, loudly.
   *
   * @throws java.io.IOException
   *   naming the file when neither version holds a JSON object
   */
  def read(file: SmallFile): Option[ObjectNode] =
    file.read().map(content => Try(parseObject(content))) match {
      case Some(Success(root)) => Some(root)
      case None => file.readPrevious().flatMap(_ => previous(file, "missing"))
      case Some(Failure(error)) =>
        val problem = s"damaged: ${firstLine(error)}"
        previous(file, problem).orElse {
          throw new java.io.IOException(
            s"The file ${file.name} is $problem, and there is no good previous version; " +
              "restore it from a backup.",
            error
          )
        }
    }

  /**
   * The same for a table whose previous version must not be used by itself.
   *
   * @throws java.io.IOException
   *   naming the file when it is damaged
   */
  def readStrictly(file: SmallFile): Option[ObjectNode] = file.read().map { content =>
    try parseObject(content)
    catch {
      case error: java.io.IOException =>
        throw new java.io.IOException(
          s"The file ${file.name} is damaged: ${firstLine(error)}.",
          error
        )
    }
  }

  private def previous(file: SmallFile, problem: String): Option[ObjectNode] =
    file.readPrevious().flatMap(content => Try(parseObject(content)).toOption).map { root =>
      logger.error(
        "a file is {}; its previous version is used instead, the last change is lost file={}",
        problem,
        file.name
      )
      file.restorePrevious()
      root
    }

  private def firstLine(error: Throwable): String =
    Option(error.getMessage).flatMap(_.linesIterator.nextOption()).getOrElse("")

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
