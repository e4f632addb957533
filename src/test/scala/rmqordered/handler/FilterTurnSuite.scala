package rmqordered.handler

import java.net.InetSocketAddress

import scala.collection.mutable

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{Body, ExtFields, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.{ManualClock, WorkBudget, WorkTurns}

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

/** A client whose turns come when the test says so. */
final class TurnByTurn extends Connection {
  val turns = mutable.Queue.empty[() => Unit]
  var answers = Vector.empty[RemotingCommand]
  override val remoteSocket = new InetSocketAddress("10.0.0.2", 5)
  override def send(command: RemotingCommand): Unit = answers :+= command
  override def whenWritable(task: () => Unit): Unit = task()
  override def inNextTurn(task: () => Unit): Unit = turns.enqueue(task)
  override def goOn(task: () => Unit): Unit = turns.prepend(task)
  override def close(): Unit = ()

  def request(b: TestBroker, code: Int, fields: Map[String, String]): Unit =
    b.core.received(
      RemotingCommand(
        code,
        "JAVA",
        479,
        1,
        0,
        None,
        Some(ExtFields(fields.toSeq: _*)),
        Body.empty
      ),
      this
    )
}

/** Requests that walk something long and have no way to be answered half-way. */
class WalkTurnSuite extends BrokerSuite {

  private def answer(
      b: TestBroker,
      code: Int,
      fields: (String, String)*
  ): (Int, RemotingCommand) = {
    val client = new TurnByTurn
    client.request(b, code, fields.toMap)
    var turns = 1
    while (client.answers.isEmpty) {
      assertEquals(client.turns.length, 1)
      client.turns.dequeue()()
      turns += 1
    }
    (turns, client.answers.head)
  }

  broker.test("a query by key goes on in its connection's next turns".proves("fair-turns")) { b =>
    val client = b.connect()
    client.createTopic("t", 1)
    (1 to 8).foreach(i => client.send("t", 0, s"$i" + "x" * 400000, "KEYS\u0001k\u0002"))
    val (turns, found) = answer(b, RequestCode.QueryMessage, "topic" -> "t", "key" -> "k")
    assertEquals(turns, 3, "three messages of 400 kB are a turn")
    assertEquals(bodies(found).map(_.head.asDigit), (1 to 8).reverse)
    val (_, none) = answer(b, RequestCode.QueryMessage, "topic" -> "t", "key" -> "other")
    assertEquals(none.code, ResponseCode.QueryNotFound)
  }

  test("what is put together of many parts is put together in turns".proves("fair-turns")) {
    val client = new TurnByTurn
    val request = RemotingCommand(1, "JAVA", 479, 1, 0, None, None, Body.empty)
    val turns = new WorkTurns(new ManualClock(), WorkBudget(millis = 5, records = 10, bytes = 1))
    var all = Vector.empty[Int]
    new Call(request, client).inTurns(turns, (1 to 25).iterator)(identity)(all = _)
    assertEquals((all, client.turns.length), (Vector.empty[Int], 1))
    client.turns.dequeue()()
    client.turns.dequeue()()
    assertEquals((all, client.turns.length), ((1 to 25).toVector, 0))
  }

  broker.test("a topic that is listed again and again is told of once") { b =>
    val client = b.connect()
    client.createTopic("t", 2)
    val stats = client.call(
      RequestCode.GetConsumeStats,
      "consumerGroup" -> "g",
      "topicList" -> Seq.fill(1000)("t").mkString(";")
    )
    assertEquals(queueTable(stats).size(), 2)
  }
}
