package rmqordered.protocol

import java.nio.file.{Files, Path}
import java.util.HexFormat

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import scala.jdk.CollectionConverters._

/** The byte files that this codec and the Python one are both tested on. */
object Golden {
  private val mapper = new ObjectMapper()

  def cases(file: String): Vector[JsonNode] = {
    val path = Path.of("tests", "golden", file)
    mapper.readTree(Files.readAllBytes(path)).elements().asScala.toVector
  }

  def bytes(hex: String): Array[Byte] = HexFormat.of().parseHex(hex)

  def hex(bytes: Array[Byte]): String = HexFormat.of().formatHex(bytes)

  def properties(node: JsonNode): Seq[(String, String)] =
    node.properties().asScala.toSeq.map(entry => entry.getKey -> entry.getValue.asText())

  def command(node: JsonNode): RemotingCommand = {
    val fields = node.get("extFields")
    RemotingCommand(
      code = node.get("code").asInt(),
      language = node.get("language").asText(),
      version = node.get("version").asInt(),
      opaque = node.get("opaque").asInt(),
      flag = node.get("flag").asInt(),
      remark = Option(node.get("remark")).filterNot(_.isNull).map(_.asText()),
      extFields = Option(fields).filterNot(_.isNull).map(f => ExtFields(properties(f): _*)),
      body = Body(bytes(node.get("bodyHex").asText()))
    )
  }
}
