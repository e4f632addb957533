package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{DecodedRecord, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.schedule.Redelivery
import rmqordered.util.{Eventually, Json}

/**
 * Messages given back by a concurrent consumer (36): retried later and later, then dead letters.
 */
class RetryHandlerSuite extends BrokerSuite {

  private def pull(client: TestClient, topic: String, queueId: Int = 0): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields(topic, queueId, 0))
    client.receive()
  }

  private def last(client: TestClient, topic: String, queueId: Int = 0): Option[DecodedRecord] =
    records(pull(client, topic, queueId)).lastOption

  private def giveBack(
      client: TestClient,
      record: DecodedRecord,
      extra: (String, String)*
  ): RemotingCommand =
    client.call(
      RequestCode.ConsumerSendMsgBack,
      Seq(
        "offset" -> record.position.commitLogOffset.toString,
        "group" -> "g",
        "delayLevel" -> "0"
      ) ++ extra: _*
    )

  private def ready(b: TestBroker): (TestClient, DecodedRecord) = {
    val client = b.connect()
    client.createTopic("t", 1)
    client.heartbeat("c1", "g", "t")
    client.receive()
    client.send("t", 0, "x", "TAGS\u0001A\u0002UNIQ_KEY\u0001U1\u0002")
    (client, last(client, "t").get)
  }

  private def afterDelay(
      b: TestBroker,
      client: TestClient,
      millis: Long,
      times: Int
  ): DecodedRecord = {
    b.clock.advance(millis - 1)
    b.tick()
    assertEquals(records(pull(client, "%RETRY%g")).length, times - 1)
    b.clock.advance(1)
    Eventually { b.tick(); records(pull(client, "%RETRY%g")).length == times }
    last(client, "%RETRY%g").get
  }

  broker.test("a message given back comes again from the retry topic, ten seconds later") { b =>
    val (client, original) = ready(b)
    assertEquals(giveBack(client, original).code, 0)
    val retried = afterDelay(b, client, 10000, 1)
    assertEquals(retried.envelope.reconsumeTimes, 1)
    assertEquals(new String(retried.content.body.toArray), "x")
    val properties = Redelivery.propertiesOf(retried)
    assertEquals(properties("RETRY_TOPIC"), "t")
    assertEquals(properties("ORIGIN_MESSAGE_ID"), "7F000001000026940000000000000000")
    assertEquals(
      (properties("TAGS"), properties("UNIQ_KEY"), properties.get("DELAY")),
      ("A", "U1", None)
    )
  }

  broker.test("each further time waits for a level more, and the origin is not forgotten") { b =>
    val (client, original) = ready(b)
    giveBack(client, original)
    val first = afterDelay(b, client, 10000, 1)
    giveBack(client, first)
    val second = afterDelay(b, client, 30000, 2)
    assertEquals(second.envelope.reconsumeTimes, 2)
    val properties = Redelivery.propertiesOf(second)
    assertEquals(
      (properties("RETRY_TOPIC"), properties("ORIGIN_MESSAGE_ID")),
      ("t", "7F000001000026940000000000000000")
    )
    giveBack(client, second, "delayLevel" -> "1")
    assertEquals(afterDelay(b, client, 1000, 3).envelope.reconsumeTimes, 3)
  }

  broker.test("after the group's number of tries a message is a dead letter") { b =>
    val (client, original) = ready(b)
    val config = Json.obj().put("groupName", "g").put("retryMaxTimes", 1)
    client.callJson(RequestCode.UpdateAndCreateSubscriptionGroup, config)
    giveBack(client, original)
    giveBack(client, afterDelay(b, client, 10000, 1))
    val dead = last(client, "%DLQ%g").get
    assertEquals(dead.envelope.reconsumeTimes, 2)
    assertEquals(Redelivery.propertiesOf(dead)("RETRY_TOPIC"), "t")
  }

  broker.test("the client may name its own number of tries, or give up at once") { b =>
    val (client, original) = ready(b)
    giveBack(client, original, "maxReconsumeTimes" -> "0")
    assertEquals(records(pull(client, "%DLQ%g")).length, 1)
    giveBack(client, original, "delayLevel" -> "-1")
    assertEquals(records(pull(client, "%DLQ%g")).length, 2)
  }

  broker.test("a group without retry queues loses what it gives back, as it asked") { b =>
    val (client, original) = ready(b)
    val config = Json.obj().put("groupName", "g").put("retryQueueNums", 0)
    client.callJson(RequestCode.UpdateAndCreateSubscriptionGroup, config)
    assertEquals(giveBack(client, original).code, 0)
    assertEquals(pull(client, "SCHEDULE_TOPIC_XXXX", 2).code, ResponseCode.PullNotFound)
  }

  broker.test("an offset where no message is, or of a deleted topic, is refused") { b =>
    val (client, original) = ready(b)
    Seq("-1", "1", "999999999999").foreach { offset =>
      assertEquals(
        giveBack(client, original, "offset" -> offset).code,
        ResponseCode.SystemError,
        offset
      )
    }
    client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
    assertEquals(giveBack(client, original).code, ResponseCode.SystemError)
  }

  broker.test("a client may send to the retry topic itself, and is delayed likewise") { b =>
    val (client, _) = ready(b)
    val fields = sendFields("%RETRY%g", 0, "DELAY\u00014\u0002") ++ Map("j" -> "1", "l" -> "16")
    client.request(RequestCode.SendMessageV2, fields, "y".getBytes)
    assertEquals(client.receive().code, 0)
    assertEquals(afterDelay(b, client, 30000, 1).envelope.reconsumeTimes, 1)
  }
}

class RetryWithoutAutoGroupSuite extends BrokerSuite {
  override def settings: Map[String, String] = Map("autoCreateSubscriptionGroup" -> "false")

  broker.test("a group that does not exist cannot give anything back") { b =>
    val answer = b
      .connect()
      .call(RequestCode.ConsumerSendMsgBack, "offset" -> "0", "group" -> "g", "delayLevel" -> "0")
    assertEquals(answer.code, ResponseCode.SubscriptionGroupNotExist)
  }
}
