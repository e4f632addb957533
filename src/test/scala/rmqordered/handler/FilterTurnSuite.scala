package rmqordered.handler

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}

/**
 * How much one request of a client looks at before the others get their turn. Time stands still
 * here, so that what ends a turn is the count: 1 MiB of properties, or 35 of these messages.
 */
class FilterTurnSuite extends BrokerSuite {
  private val PerTurn = 35
  private val sql = Seq("expressionType" -> "SQL92", "subscription" -> "colour = 'red'")
  private val popSql = Seq("expType" -> "SQL92", "exp" -> "colour = 'red'")

  private def fill(client: TestClient, count: Int, colour: String): Unit =
    (1 to count).foreach { i =>
      client.send("t", 0, s"$colour $i", s"wide\u0001${"x" * 29990}\u0002colour\u0001$colour\u0002")
    }

  private def pull(client: TestClient, start: Long): RemotingCommand = {
    client.request(RequestCode.PullMessage, pullFields("t", 0, start, sql: _*))
    client.receive()
  }

  broker.test(
    "a pull looks at the records of one turn, and says where to go on".proves("fair-turns")
  ) { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    fill(client, 80, "blue")
    fill(client, 1, "red")
    val answers = Iterator
      .unfold(0L) { start =>
        Option.when(start < 81)(pull(client, start)).map { answer =>
          (answer, answer.ext("nextBeginOffset").get.toLong)
        }
      }
      .toVector
    assertEquals(
      answers.map(answer => (answer.code, answer.ext("nextBeginOffset").get.toInt)),
      Vector(
        (ResponseCode.PullRetryImmediately, PerTurn),
        (ResponseCode.PullRetryImmediately, 2 * PerTurn),
        (ResponseCode.Success, 81)
      )
    )
  }

  broker.test("a pull that found something brings it when its turn is over") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    fill(client, 1, "red")
    fill(client, 79, "blue")
    val answer = pull(client, 0)
    assertEquals(bodies(answer), Seq("red 1"))
    assertEquals(answer.ext("nextBeginOffset"), Some(PerTurn.toString))
  }

  broker.test(
    "a pull that waits looks into what arrives in its own turns, not in its sender's".proves(
      "fair-turns"
    )
  ) { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val waiting = new TurnByTurn
    waiting.request(
      b,
      RequestCode.PullMessage,
      pullFields("t", 0, 0, sql :+ ("sysFlag" -> "6"): _*)
    )
    fill(client, 80, "blue")
    assertEquals(waiting.turns.length, 1, "one look for all that came, and none of it done yet")
    waiting.turns.dequeue()()
    assertEquals(waiting.turns.length, 1, "the turn was over before the end")
    waiting.turns.dequeue()()
    waiting.turns.dequeue()()
    assertEquals((waiting.turns.length, waiting.answers.length), (0, 0))
    fill(client, 1, "red")
    waiting.turns.dequeue()()
    assertEquals(waiting.answers.map(_.code), Vector(0))
    assertEquals(bodies(waiting.answers.head), Seq("red 1"), "not one turn after another again")
  }

  broker.test("a pull that waited in vain goes on behind what it has looked at") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val waiting = new TurnByTurn
    waiting.request(
      b,
      RequestCode.PullMessage,
      pullFields("t", 0, 0, sql :+ ("sysFlag" -> "6"): _*)
    )
    fill(client, 80, "blue")
    while (waiting.turns.nonEmpty) waiting.turns.dequeue()()
    b.clock.advance(20000)
    b.tick(100)
    assertEquals(
      waiting.answers.map(answer => (answer.code, answer.ext("nextBeginOffset"))),
      Vector((ResponseCode.PullRetryImmediately, Some("80")))
    )
  }

  broker.test("one connection does not wait more than 256 times for one queue") { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    (1 to 257).foreach { _ =>
      client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "sysFlag" -> "6"))
    }
    assertEquals(client.receive().code, ResponseCode.PullNotFound)
    assert(!client.hasAnswer)
    val other = b.connect()
    other.request(RequestCode.PullMessage, pullFields("t", 0, 0, "sysFlag" -> "6"))
    assert(!other.hasAnswer, "others wait beside it")
    client.send("t", 0, "x")
    assertEquals(bodies(other.receive()), Seq("x"))
  }

  broker.test("a pop moves its position by one turn, and is answered".proves("fair-turns")) { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    fill(client, 80, "blue")
    fill(client, 1, "red")
    val popper = new Popper(client, "t")
    val waits = popSql :+ ("pollTime" -> "10000")
    val answers = Seq.fill(3)(popper.ask(waits: _*))
    assertEquals(
      answers.map(_.code),
      Seq(ResponseCode.PollingTimeout, ResponseCode.PollingTimeout, ResponseCode.Success)
    )
    assertEquals(bodies(answers.last), Seq("red 1"))
  }

  broker.test(
    "who only asks is told to pop when a turn is not enough to know".proves("fair-turns")
  ) {
    b =>
      val client = b.connect()
      client.createTopic("t", 1)
      val popper = new Popper(client, "t")
      def hasMessages: Boolean = {
        client.request(
          RequestCode.Notification,
          Map("consumerGroup" -> "g", "topic" -> "t", "queueId" -> "0", "pollTime" -> "0") ++ popSql
        )
        client.receive().ext("hasMsg").contains("true")
      }
      fill(client, 30, "blue")
      assert(!hasMessages, "one turn was enough")
      fill(client, 50, "blue")
      assert(hasMessages)
      popper.ask(popSql: _*)
      popper.ask(popSql: _*)
      popper.ask(popSql: _*)
      assert(!hasMessages, "the pops went past what is not wanted")
  }

  broker.test("a list of tags is as short as an expression".proves("fair-turns")) { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    val tags = "subscription" -> Seq.fill(4097)("ab").mkString("||")
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0, tags))
    val answer = client.receive()
    assertEquals(answer.code, ResponseCode.SubscriptionParseFailed)
    assert(answer.remark.exists(_.contains("at most 16384")), answer.remark)
  }
}
