package rmqordered.protocol

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonToken}

/**
 * The JSON form of a frame's header.
 *
 * Written byte for byte as RocketMQ's library does: keys in alphabetical order, absent fields left
 * out, no spaces. Read tolerantly: unknown keys are skipped, numbers and booleans are accepted for
 * strings and numeric strings for numbers.
 */
object JsonHeader {
  private val factory = new JsonFactory()
  private val FirstPrintable = 0x20

  def encode(command: RemotingCommand): Array[Byte] = {
    val out = new java.lang.StringBuilder(256)
    out.append("{\"code\":").append(command.code)
    command.extFields.foreach(writeExtFields(out, _))
    out.append(",\"flag\":").append(command.flag)
    out.append(",\"language\":")
    writeString(out, command.language)
    out.append(",\"opaque\":").append(command.opaque)
    command.remark.foreach { remark =>
      out.append(",\"remark\":")
      writeString(out, remark)
    }
    out.append(
      ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":"
    ).append(command.version).append('}')
    out.toString.getBytes(UTF_8)
  }

  private def writeExtFields(out: java.lang.StringBuilder, fields: ExtFields): Unit = {
    out.append(",\"extFields\":{")
    var first = true
    fields.toSeq.foreach { case (key, value) =>
      if (!first) out.append(',')
      first = false
      writeString(out, key)
      out.append(':')
      writeString(out, value)
    }
    val _ = out.append('}')
  }

  private def writeString(out: java.lang.StringBuilder, text: String): Unit = {
    out.append('"')
    if (isPlain(text)) out.append(text) else writeEscaped(out, text)
    val _ = out.append('"')
  }

  // Nearly every text is: one look at it instead of an append for each letter.
  private def isPlain(text: String): Boolean = {
    var i = 0
    while (i < text.length && !needsEscape(text.charAt(i))) i += 1
    i == text.length
  }

  private def needsEscape(char: Char): Boolean =
    char < FirstPrintable || char == '"' || char == '\\'

  private def writeEscaped(out: java.lang.StringBuilder, text: String): Unit =
    text.foreach {
      case '"' => out.append("\\\"")
      case '\\' => out.append("\\\\")
      case '\n' => out.append("\\n")
      case '\r' => out.append("\\r")
      case '\t' => out.append("\\t")
      case '\b' => out.append("\\b")
      case '\f' => out.append("\\f")
      case char if char < FirstPrintable => out.append("\\u%04X".format(char.toInt))
      case char => out.append(char)
    }

  /** @throws ProtocolError when the bytes are not a JSON object or a number is not one */
  def decode(bytes: Array[Byte], offset: Int, length: Int, body: Body): RemotingCommand =
    try {
      val parser = factory.createParser(bytes, offset, length)
      try new Reader(parser, body).read()
      finally parser.close()
    } catch {
      case error: IOException =>
        throw new ProtocolError(s"the JSON header cannot be read: ${firstLine(error.getMessage)}")
    }

  private def firstLine(text: String): String = Option(text).fold("")(_.linesIterator.next())

  private final class Reader(parser: JsonParser, body: Body) {
    private var code = 0
    private var language = Language.Java
    private var version = 0
    private var opaque = 0
    private var flag = 0
    private var remark: Option[String] = None
    private var extFields: Option[ExtFields] = None

    def read(): RemotingCommand = {
      if (parser.nextToken() != JsonToken.START_OBJECT)
        throw new ProtocolError("the JSON header is not an object")
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        val key = parser.currentName()
        parser.nextToken()
        readField(key)
      }
      RemotingCommand(code, language, version, opaque, flag, remark, extFields, body)
    }

    private def readField(key: String): Unit = key match {
      case "code" => code = int(key)
      case "flag" => flag = int(key)
      case "opaque" => opaque = int(key)
      case "version" => version = int(key)
      case "language" => language = readLanguage()
      case "remark" => remark = scalar()
      case "extFields" => extFields = readExtFields()
      case _ => val _ = parser.skipChildren()
    }

    private def readLanguage(): String =
      if (parser.currentToken() == JsonToken.VALUE_NUMBER_INT) Language.byOrdinal(int("language"))
      else Language.known(scalar().getOrElse(Language.Other))

    private def int(key: String): Int =
      scalar().fold(0) { text =>
        text.toIntOption.getOrElse(
          throw new ProtocolError(
            s"the header field $key is not a 32-bit number: '${text.take(40)}'"
          )
        )
      }

    /** Any scalar as text; null and nested values count as absent. */
    private def scalar(): Option[String] = parser.currentToken() match {
      case JsonToken.VALUE_NULL => None
      case token if token.isScalarValue => Some(parser.getText)
      case _ =>
        parser.skipChildren()
        None
    }

    private def readExtFields(): Option[ExtFields] =
      if (parser.currentToken() != JsonToken.START_OBJECT) {
        parser.skipChildren()
        None
      } else {
        val entries = Vector.newBuilder[(String, String)]
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
          val key = parser.currentName()
          parser.nextToken()
          scalar().foreach(value => entries += key -> value)
        }
        Some(ExtFields(entries.result(): _*))
      }
  }
}
