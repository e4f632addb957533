package rmqordered.handler

import scala.jdk.CollectionConverters._

import rmqordered.group.Allocation
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.store.StoreFixture
import rmqordered.util.Json

class AssignmentSuite extends BrokerSuite {

  private def setMode(client: TestClient, mode: String, shared: Int, topic: String = "t") =
    client.callJson(
      RequestCode.SetMessageRequestMode,
      Json
        .obj()
        .put("consumerGroup", "g")
        .put("mode", mode)
        .put("popShareQueueNum", shared)
        .put("topic", topic)
    )

  private def query(client: TestClient, member: String, topic: String = "t"): RemotingCommand = {
    client.request(
      RequestCode.QueryAssignment,
      body = Json.bytes(
        Json
          .obj()
          .put("clientId", member)
          .put("consumerGroup", "g")
          .put("messageModel", "CLUSTERING")
          .put("strategyName", "AVG")
          .put("topic", topic)
      )
    )
    Iterator.continually(client.receive()).find(_.isResponse).get
  }

  private def assigned(answer: RemotingCommand): Seq[(Int, String)] =
    TestClient
      .json(answer)
      .path("messageQueueAssignments")
      .elements()
      .asScala
      .map(node => (node.path("messageQueue").path("queueId").asInt(), node.path("mode").asText()))
      .toSeq

  /** A member; the news about itself is waiting no more. */
  private def join(client: TestClient): Unit = {
    client.heartbeat("a", "g", "t")
    while (client.hasAnswer) client.receive()
  }

  broker.test("members share the queues, and pop all of them once their group is told to") {
    broker =>
      val client = broker.connect()
      client.createTopic("t", 3)
      join(client)
      assertEquals(assigned(query(client, "a")), Seq((0, "PULL"), (1, "PULL"), (2, "PULL")))
      assertEquals(setMode(client, "POP", 0).code, 0)
      assertEquals(assigned(query(client, "a")), Seq((-1, "POP")))
      assertEquals(assigned(query(client, "a", "%RETRY%g")), Seq((0, "PULL")))
  }

  broker.test("a mode that cannot be is refused") { broker =>
    val client = broker.connect()
    client.createTopic("t", 1)
    assertEquals(setMode(client, "POP", 0).code, ResponseCode.SubscriptionGroupNotExist)
    join(client)
    assertEquals(setMode(client, "POP", 0, "%RETRY%g").code, ResponseCode.NoPermission)
    assertEquals(setMode(client, "POP", 0, "nowhere").code, ResponseCode.TopicNotExist)
    assertEquals(setMode(client, "PUSH", 0).code, ResponseCode.InvalidParameter)
    assert(!TestClient.json(query(client, "a", "nowhere")).has("messageQueueAssignments"))
  }

  test("a mode outlives a restart") {
    val folder = StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val client = first.connect()
    client.createTopic("t", 1)
    join(client)
    assertEquals(setMode(client, "POP", 0).code, 0)
    first.close()
    val second = new TestBroker(folder)
    val again = second.connect()
    join(again)
    assertEquals(assigned(query(again, "a")), Seq((-1, "POP")))
    second.close()
  }

  test("queues are allocated as RocketMQ's strategies do") {
    val members = Vector("a", "b", "c")
    val queues = (0 until 8).toVector
    assertEquals(members.map(Allocation.average(_, members, queues).length), Vector(3, 3, 2))
    assertEquals(members.flatMap(Allocation.average(_, members, queues)), queues)
    assertEquals(Allocation.circle("b", members, queues), Vector(1, 4, 7))
    assertEquals(Allocation.average("stranger", members, queues), Vector.empty)
  }

  test("members that share pop their own queues and those of the next ones") {
    val members = Vector("a", "b", "c", "d")
    def popped(member: String, queues: Int, shared: Int) =
      Allocation.popped(Allocation.average, member, members, (0 until queues).toVector, shared)
    assertEquals(popped("d", 8, 1), Vector(6, 7, 0, 1))
    assertEquals(popped("d", 8, 3), Vector(-1))
    assertEquals(popped("d", 3, 1), Vector(0))
    assertEquals(popped("stranger", 8, 1), Vector.empty)
  }
}
