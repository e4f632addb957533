package rmqordered.group

import rmqordered.model.{ClientIdentity, ConsumeMode, Subscription, SubscriptionGroupConfig}
import rmqordered.util.{ManualClock, MemoryFile}

class GroupsSuite extends munit.FunSuite {
  private val mode =
    ConsumeMode("CONSUME_PASSIVELY", ConsumeMode.Clustering, "CONSUME_FROM_LAST_OFFSET")

  private def client(id: String) = ClientIdentity(id, "JAVA", 479)

  private def to(version: Long, topics: String*): Registration =
    Registration("g", mode, Some(topics.map(Subscription(_, "*", "TAG", version))))

  test("a newcomer is news to every member, itself included; a second heartbeat is not") {
    val groups = new ConsumerGroups[String](new ManualClock(), 1000)
    assertEquals(groups.register("c1", client("a"), to(1, "t")).map(_.members), Some(Vector("c1")))
    assertEquals(
      groups.register("c2", client("b"), to(1, "t")).map(_.members),
      Some(Vector("c1", "c2"))
    )
    assertEquals(groups.register("c1", client("a"), to(1, "t")), None)
    assertEquals(groups.view("g").map(_.members.map(_.identity.clientId)), Some(Vector("a", "b")))
  }

  test("another set of topics is news, another version of the same is not") {
    val groups = new ConsumerGroups[String](new ManualClock(), 1000)
    groups.register("c1", client("a"), to(1, "t"))
    assertEquals(groups.register("c1", client("a"), to(2, "t")), None)
    assertEquals(groups.subscription("g", "t").map(_.subVersion), Some(2L))
    assert(groups.register("c1", client("a"), to(2, "t", "u")).isDefined)
    assert(groups.register("c1", client("a"), to(2, "u")).isDefined)
    assertEquals(groups.subscription("g", "t"), None)
    assertEquals(groups.groupsOf("u"), Set("g"))
  }

  test("an older subscription does not replace a newer one, and none keeps what is there") {
    val groups = new ConsumerGroups[String](new ManualClock(), 1000)
    groups.register("c1", client("a"), to(5, "t"))
    groups.register("c2", client("b"), to(3, "t"))
    assertEquals(groups.subscription("g", "t").map(_.subVersion), Some(5L))
    groups.register("c1", client("a"), Registration("g", mode, None))
    assert(groups.subscription("g", "t").isDefined)
  }

  test("who leaves or is cut off is news to those who stay") {
    val groups = new ConsumerGroups[String](new ManualClock(), 1000)
    Seq("c1", "c2", "c3").foreach(c => groups.register(c, client(c), to(1, "t")))
    assertEquals(groups.unregister("c1", "g").map(_.members), Some(Vector("c2", "c3")))
    assertEquals(groups.unregister("c1", "g"), None)
    assertEquals(groups.disconnect("c2").map(_.members), Seq(Vector("c3")))
    groups.disconnect("c3")
    assert(!groups.contains("g"))
  }

  test("a silent member expires strictly after its time") {
    val clock = new ManualClock()
    val groups = new ConsumerGroups[String](clock, 1000)
    groups.register("c1", client("a"), to(1, "t"))
    clock.advance(1000)
    assertEquals(groups.expired(), Nil)
    clock.advance(1)
    assertEquals(groups.expired(), Seq("c1"))
  }

  test("producers are listed while they are connected") {
    val producers = new ProducerGroups[String]
    producers.register("c1", client("a"), "p")
    producers.register("c2", client("b"), "p")
    producers.unregister("c1", "p")
    assertEquals(producers.members("p").map(_._1), Vector("c2"))
    producers.disconnect("c2")
    assertEquals(producers.members("p"), Vector.empty)
  }

  test("a group's settings survive a restart, and a deletion does too") {
    val file = new MemoryFile()
    val config = SubscriptionGroupConfig(
      "g",
      consumeEnable = false,
      retryQueueNums = 3,
      retryMaxTimes = 5,
      notifyConsumerIdsChangedEnable = false
    )
    new SubscriptionGroups(file, autoCreate = true).put(config)
    val again = new SubscriptionGroups(file, autoCreate = true)
    assertEquals(again.all, Seq(config))
    again.delete("g")
    assertEquals(new SubscriptionGroups(file, autoCreate = true).all, Nil)
  }
}
