package rmqordered.handler

import java.nio.file.{Files, Path}

import rmqordered.Proves._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.store.StoreFixture

/** A broker whose file of committed offsets is gone: nobody begins again without a word. */
class LostOffsetsSuite extends munit.FunSuite {

  private def use[T](folder: Path)(body: (TestBroker, TestClient) => T): T = {
    val broker = new TestBroker(folder)
    try body(broker, broker.connect())
    finally broker.close()
  }

  private def commit(client: TestClient, queueId: Int, offset: Long): RemotingCommand =
    client.call(
      RequestCode.UpdateConsumerOffset,
      "consumerGroup" -> "g",
      "topic" -> "orders",
      "queueId" -> queueId.toString,
      "commitOffset" -> offset.toString
    )

  private def query(client: TestClient, queueId: Int, group: String = "g"): RemotingCommand =
    client.call(
      RequestCode.QueryConsumerOffset,
      "consumerGroup" -> group,
      "topic" -> "orders",
      "queueId" -> queueId.toString
    )

  private def offset(answer: RemotingCommand): Option[String] =
    answer.ext("offset")

  private def isLost(client: TestClient): String =
    TestClient.json(client.call(RequestCode.GetBrokerRuntimeInfo))
      .get("table").get("consumerOffsetsLost").asText()

  /** A broker that has served; what follows finds its folder without the files named. */
  private def served(gone: String*): Path = {
    val folder = StoreFixture.temporaryFolder()
    use(folder) { (_, client) =>
      client.createTopic("orders", 2)
      client.heartbeat("c", "g", "orders")
      (0 to 1).foreach { queueId =>
        (0 until 5).foreach(i => client.send("orders", queueId, s"$i"))
        assertEquals(commit(client, queueId, 3L).code, ResponseCode.Success)
      }
    }
    gone.foreach(name => Files.deleteIfExists(folder.resolve("config").resolve(name)))
    folder
  }

  private def withoutOffsets(): Path = served("consumerOffset.json", "consumerOffset.json.bak")

  test("who asks for an offset that may be lost is told the ways out".proves("lost-offsets-told")) {
    use(withoutOffsets()) { (_, client) =>
      val answer = query(client, 0)
      assertEquals(answer.code, ResponseCode.OffsetsLost)
      assert(answer.remark.exists(_.contains("resetOffsetByTime")), answer.remark)
      assertEquals(isLost(client), "true")
      assertEquals(
        client.call(RequestCode.GetConsumeStats, "consumerGroup" -> "g", "topic" -> "orders").code,
        ResponseCode.OffsetsLost
      )
      assertEquals(new Popper(client, "orders").ask().code, ResponseCode.OffsetsLost)
    }
  }

  test("the broker serves, and a group that is new begins as ever".proves("lost-offsets-told")) {
    use(withoutOffsets()) { (_, client) =>
      assertEquals(client.send("orders", 0, "more").code, ResponseCode.Success)
      client.request(RequestCode.PullMessage, TestClient.pullFields("orders", 0, 3L))
      assertEquals(TestClient.bodies(client.receive()), Seq("3", "4", "more"))
      assertEquals(offset(query(client, 0, "new")), Some("0"))
    }
  }

  test("a reset, a commit and an empty file are ways out".proves("lost-offsets-told")) {
    val folder = withoutOffsets()
    use(folder) { (_, client) =>
      val reset = client.call(
        RequestCode.InvokeBrokerToResetOffset,
        "topic" -> "orders",
        "group" -> "g",
        "timestamp" -> "-1",
        "queueId" -> "0",
        "offset" -> "4",
        "isForce" -> "true"
      )
      assertEquals(reset.code, ResponseCode.Success)
      assertEquals(offset(query(client, 0)), Some("4"))
      assertEquals(query(client, 1).code, ResponseCode.OffsetsLost)
      assertEquals(commit(client, 1, 2L).code, ResponseCode.Success)
      assertEquals(offset(query(client, 1)), Some("2"))
    }
    use(folder)((_, client) => assertEquals(offset(query(client, 0)), Some("4")))
    val emptied = withoutOffsets()
    Files.writeString(emptied.resolve("config").resolve("consumerOffset.json"), "{}")
    use(emptied) { (_, client) =>
      assertEquals(offset(query(client, 0)), Some("0"))
      assertEquals(isLost(client), "false")
    }
  }

  test("without the table of groups it may be any group that has lost its offsets") {
    val folder = served(
      "consumerOffset.json",
      "consumerOffset.json.bak",
      "subscriptionGroup.json",
      "subscriptionGroup.json.bak"
    )
    use(folder)((_, client) =>
      assertEquals(query(client, 0, "any").code, ResponseCode.OffsetsLost)
    )
  }

  test("a broker that never had a message has nothing to lose") {
    val folder = StoreFixture.temporaryFolder()
    use(folder)((_, client) => client.createTopic("orders", 2))
    Files.delete(folder.resolve("config").resolve("consumerOffset.json"))
    use(folder)((_, client) => assertEquals(isLost(client), "false"))
  }
}
