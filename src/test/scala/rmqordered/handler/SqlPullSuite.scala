package rmqordered.handler

import rmqordered.handler.TestClient._
import rmqordered.protocol.{RequestCode, ResponseCode}

/** Pulls with an SQL92 filter. */
class SqlPullSuite extends BrokerSuite {
  private val sql =
    Seq("expressionType" -> "SQL92", "subscription" -> "colour = 'red' AND size > 5")

  private def send(client: TestClient, body: String, colour: String, size: Int): Unit = {
    val _ = client.send("t", 0, body, s"colour\u0001$colour\u0002size\u0001$size\u0002")
  }

  broker.test("only matching messages come, and the others are passed over") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    send(client, "red small", "red", 5)
    send(client, "red large", "red", 6)
    send(client, "blue large", "blue", 6)
    client.send("t", 0, "plain")
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, sql: _*))
    val answer = client.receive()
    assertEquals(bodies(answer), Seq("red large"))
    assertEquals(answer.ext("nextBeginOffset"), Some("4"))
    client.request(RequestCode.PullMessage, pullFields("t", 0, 2, sql: _*))
    assertEquals(client.receive().code, ResponseCode.PullRetryImmediately)
  }

  broker.test("a long poll sleeps through what does not match and wakes for what does") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val producer = b.connect()
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, sql :+ ("sysFlag" -> "6"): _*))
    send(producer, "blue", "blue", 9)
    assert(!client.hasAnswer)
    send(producer, "red", "red", 9)
    assertEquals(bodies(client.receive()), Seq("red"))
  }
}

class HostileSqlSuite extends BrokerSuite {
  // Most of what a thread's stack can take, and beyond; then a message on which it is evaluated.
  Seq(400, 8000).foreach { length =>
    broker.test(s"a long poll with $length chained comparisons stops no send") { b =>
      val (client, producer) = (b.connect(), b.connect())
      client.createTopic("t", 1)
      val chain = Seq("expressionType" -> "SQL92", "subscription" -> ("a" + "=a" * length))
      client.request(
        RequestCode.PullMessage,
        pullFields("t", 0, 0, chain :+ ("sysFlag" -> "6"): _*)
      )
      (0 until 3).foreach(i => assertEquals(producer.send("t", 0, s"$i").code, 0))
    }
  }
}

class SqlDisabledSuite extends BrokerSuite {
  override def settings: Map[String, String] = Map("enablePropertyFilter" -> "false")

  broker.test("SQL filters can be switched off, as RocketMQ's default is") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    client.request(
      RequestCode.PullMessage,
      pullFields("t", 0, 0, "expressionType" -> "SQL92", "subscription" -> "a = 1")
    )
    assertEquals(client.receive().code, ResponseCode.SystemError)
  }
}
