package rmqordered.handler

import java.util.{Base64, BitSet}

import rmqordered.protocol.{DecodedRecord, MessageProperties, RemotingCommand, RequestCode}
import rmqordered.schedule.Redelivery
import rmqordered.util.Json

/** A popped message with its handle, made as clients make it. */
final case class Popped(record: DecodedRecord, handle: String, physicalTopic: String) {
  val body: String = new String(record.content.body.toArray)
  val offset: Long = record.position.queueOffset
  val queueId: Int = record.envelope.queueId
  val popTime: Long = handle.split(' ')(1).toLong
}

/** Pops like a client of RocketMQ. */
final class Popper(client: TestClient, topic: String, val group: String = "g") {

  def request(extra: (String, String)*): Int =
    client.request(RequestCode.PopMessage, fields(extra: _*))

  def ask(extra: (String, String)*): RemotingCommand = {
    request(extra: _*)
    client.receive()
  }

  def pop(extra: (String, String)*): Vector[Popped] = messages(ask(extra: _*))

  def fields(extra: (String, String)*): Map[String, String] = Map(
    "consumerGroup" -> group,
    "topic" -> topic,
    "queueId" -> "-1",
    "maxMsgNums" -> "32",
    "invisibleTime" -> "60000",
    "pollTime" -> "0",
    "bornTime" -> "0",
    "initMode" -> "0",
    "exp" -> "*",
    "expType" -> "TAG",
    "order" -> "false"
  ) ++ extra

  def messages(answer: RemotingCommand): Vector[Popped] =
    if (answer.code != 0) Vector.empty
    else {
      val starts = answer.ext("startOffsetInfo").get.split(';').map(_.split(' ')).map {
        case Array(kind, queueId, start) => (kind, queueId.toInt) -> start
        case other => throw new AssertionError(other.mkString(" "))
      }.toMap
      TestClient.records(answer).toVector.map { record =>
        val known = Redelivery.propertiesOf(record).get(MessageProperties.PopCheckpoint)
        val handle = known.getOrElse {
          val queueId = record.envelope.queueId
          s"${starts(("0", queueId))} ${answer.ext("popTime").get} " +
            s"${answer.ext("invisibleTime").get} ${answer.ext("reviveQid").get} 0 broker-a " +
            s"$queueId ${record.position.queueOffset}"
        }
        Popped(record, handle, physical(handle))
      }
    }

  private def physical(handle: String): String = handle.split(' ')(4) match {
    case "1" => s"%RETRY%${group}_$topic"
    case "2" => s"%RETRY%$group+$topic"
    case _ => topic
  }

  def ack(popped: Popped, extra: (String, String)*): RemotingCommand = {
    client.request(RequestCode.AckMessage, handleFields(popped) ++ extra)
    client.receive()
  }

  def ackAll(popped: Seq[Popped]): RemotingCommand = {
    val root = Json.obj().put("brokerName", "broker-a")
    val acks = root.putArray("acks")
    popped.groupBy(one => one.handle.split(' ').take(7).toVector).foreach { case (parts, some) =>
      val bits = new BitSet()
      some.foreach(one => bits.set((one.offset - parts(0).toLong).toInt))
      acks
        .addObject()
        .put("b", Base64.getEncoder.encodeToString(bits.toByteArray))
        .put("c", group)
        .put("it", parts(2).toLong)
        .put("pt", parts(1).toLong)
        .put("q", parts(6).toInt)
        .put("r", parts(4))
        .put("rq", parts(3).toInt)
        .put("so", parts(0).toLong)
        .put("t", topic)
    }
    client.callJson(RequestCode.BatchAckMessage, root)
  }

  /** The message under the handle that counts from now on. */
  def change(popped: Popped, millis: Long): Popped = {
    val answer = changeRequest(popped, millis)
    val parts = popped.handle.split(' ')
    val handle = s"${popped.offset} ${answer.ext("popTime").get} " +
      s"${answer.ext("invisibleTime").get} ${answer.ext("reviveQid").get} ${parts(4)} " +
      s"${parts(5)} ${parts(6)} ${parts(7)}"
    popped.copy(handle = handle)
  }

  def changeRequest(popped: Popped, millis: Long): RemotingCommand = {
    client.request(
      RequestCode.ChangeMessageInvisibleTime,
      handleFields(popped) + ("invisibleTime" -> millis.toString)
    )
    client.receive()
  }

  def handleFields(popped: Popped): Map[String, String] = Map(
    "consumerGroup" -> group,
    "topic" -> popped.physicalTopic,
    "queueId" -> popped.queueId.toString,
    "extraInfo" -> popped.handle,
    "offset" -> popped.offset.toString
  )
}
