package rmqordered.handler

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{Body, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.{ManualClock, WorkBudget, WorkTurns}

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
