package rmqordered.handler

import rmqordered.group.ConsumerGroups
import rmqordered.protocol.{Body, ExtFields, MessageId, ResponseCode, StoredRecord}
import rmqordered.store.MessageStore

/** Questions of an administrator that only a consumer can answer: carried to it and back. */
final class RelayHandler(
    consumers: ConsumerGroups[Connection],
    store: MessageStore,
    identity: BrokerIdentity,
    calls: ClientCalls
) {

  /** 307. */
  def runningInfo(call: Call): Unit =
    relay(call, call.command.extFields.getOrElse(ExtFields.empty), call.command.body)

  /** 309. The consumer gets the message itself and says what became of it. */
  def consumeDirectly(call: Call): Unit = {
    val id = call.text("msgId")
    val record = MessageId
      .commitLogOffset(id)
      .flatMap(store.recordAt)
      .getOrElse(throw new Refusal(ResponseCode.SystemError, s"look message by id failed, $id"))
    val fields = call.command.extFields.getOrElse(ExtFields.empty).toSeq
    val named = ExtFields(fields :+ ("brokerName" -> identity.brokerName): _*)
    relay(call, named, Body(StoredRecord.encode(record.envelope, record.content, record.position)))
  }

  private def relay(call: Call, fields: ExtFields, body: Body): Unit = {
    val group = call.text("consumerGroup")
    val clientId = call.text("clientId")
    val member = consumers
      .view(group)
      .flatMap(_.members.find(_.identity.clientId == clientId))
      .getOrElse(
        throw new Refusal(ResponseCode.SystemError, s"The Consumer <$group> <$clientId> not online")
      )
    calls.ask(member.channel, call.command.code, fields, body) {
      case Right(answer) =>
        call.answer(Response(answer.code, answer.remark, answer.extFields, answer.body))
      case Left(NoAnswer.TimedOut) =>
        call.fail(new Refusal(
          ResponseCode.ConsumeMsgTimeout,
          s"consumer <$group> <$clientId> Timeout"
        ))
      case Left(NoAnswer.Disconnected) =>
        call.fail(
          new Refusal(
            ResponseCode.SystemError,
            s"The Consumer <$group> <$clientId> not online any more"
          )
        )
    }
  }
}
