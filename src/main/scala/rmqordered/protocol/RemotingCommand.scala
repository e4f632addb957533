package rmqordered.protocol

/** How a header is written; the type byte of a frame. */
sealed abstract class SerializeType(val code: Byte, val name: String)

object SerializeType {
  case object Json extends SerializeType(0, "JSON")

  /** RocketMQ's binary header. Request codes above 32767 do not fit it. */
  case object RocketMq extends SerializeType(1, "ROCKETMQ")

  def byCode(code: Int): Option[SerializeType] = Seq(Json, RocketMq).find(_.code == code)
}

/**
 * A request or response of RocketMQ's remoting protocol. Immutable; says nothing about bytes.
 *
 * @param extFields
 *   nothing when the header had no such field at all, which Java tells apart from an empty one
 */
final case class RemotingCommand(
    code: Int,
    language: String,
    version: Int,
    opaque: Int,
    flag: Int,
    remark: Option[String],
    extFields: Option[ExtFields],
    body: Body
) {
  def isResponse: Boolean = (flag & RemotingCommand.ResponseFlag) != 0

  def isOneWay: Boolean = (flag & RemotingCommand.OneWayFlag) != 0

  def ext(name: String): Option[String] = extFields.flatMap(_.get(name))
}

object RemotingCommand {
  val ResponseFlag = 1
  val OneWayFlag = 2

  /**
   * What this broker says it is: the V5_4_0 ordinal. Java clients refuse SQL filters of brokers
   * below 232 and expect at least 479 for today's header fields.
   */
  val Version = 493

  /** RocketMQ's language names are a closed list without Scala. */
  val Language = "OTHER"

  def response(
      opaque: Int,
      code: Int,
      remark: Option[String] = None,
      extFields: Option[ExtFields] = None,
      body: Body = Body.empty
  ): RemotingCommand =
    RemotingCommand(code, Language, Version, opaque, ResponseFlag, remark, extFields, body)

  def oneWayRequest(opaque: Int, code: Int, extFields: ExtFields): RemotingCommand =
    RemotingCommand(code, Language, Version, opaque, OneWayFlag, None, Some(extFields), Body.empty)
}
