package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode

import rmqordered.protocol.{Body, ExtFields, ResponseCode}
import rmqordered.util.Json

/** What a handler says; the dispatcher makes a command of it. */
final case class Response(
    code: Int,
    remark: Option[String] = None,
    extFields: Option[ExtFields] = None,
    body: Body = Body.empty
)

object Response {
  val ok: Response = Response(ResponseCode.Success)

  def fields(entries: (String, String)*): Response =
    Response(ResponseCode.Success, extFields = Some(ExtFields(entries: _*)))

  def json(node: JsonNode): Response =
    Response(ResponseCode.Success, body = Body(Json.bytes(node)))
}
