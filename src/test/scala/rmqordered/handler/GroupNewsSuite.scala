package rmqordered.handler

import rmqordered.Proves._
import rmqordered.group.{ConsumerGroups, Registration}
import rmqordered.handler.TestClient._
import rmqordered.model.{ClientIdentity, ConsumeMode}
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.{Json, ManualClock}

/** News of groups is bounded: per group and time, and per connection. */
class GroupNewsSuite extends BrokerSuite {

  /** A member that does not take what it is sent. */
  private final class Deaf(b: TestBroker, id: Int) {
    val client: TestClient = b.connect()
    client.isTaking = false

    def join(topics: String*): Unit = joinAs("g", topics: _*)

    def joinAs(group: String, topics: String*): Unit = {
      // In the same moment as everybody else.
      val body = Json.bytes(TestClient.heartbeat(s"c$id", group, topics))
      val command = RemotingCommand.oneWayRequest(1, RequestCode.HeartBeat, noFields)
      b.core.received(command.copy(body = rmqordered.protocol.Body(body)), client)
    }

    /** How many pieces of news came. */
    def heard(): Int =
      Iterator
        .continually(if (client.hasAnswer) Some(client.receive()) else None)
        .takeWhile(_.isDefined)
        .count(_.exists(_.code == RequestCode.NotifyConsumerIdsChanged))

    /** The client reads at last. */
    def take(): Unit = {
      val callbacks = client.untaken
      client.untaken = Vector.empty
      callbacks.foreach(_())
    }
  }

  private val noFields = rmqordered.protocol.ExtFields.empty

  private def pass(b: TestBroker): Unit = {
    b.clock.advance(GroupNews.PauseMs)
    b.tick(GroupNews.PauseMs)
  }

  broker.test(
    "a crowd that joins at once is told twice, not once for each".proves("news-bounded")
  ) {
    b =>
      val crowd = (0 until 100).map(new Deaf(b, _))
      crowd.foreach(_.client.isTaking = true)
      crowd.foreach(_.join("t"))
      assertEquals(crowd.map(_.heard()).sum, 1, "the first one, of itself")
      pass(b)
      assertEquals(crowd.map(_.heard()), Vector.fill(100)(1))
      pass(b)
      assertEquals(crowd.map(_.heard()).sum, 0, "nothing has changed since")
  }

  broker.test("who takes nothing is sent one piece of news, however often a group changes".proves(
    "news-bounded"
  )) { b =>
    val crowd = (0 until 20).map(new Deaf(b, _))
    (0 until 50).foreach { round =>
      crowd.foreach(_.join("t", s"u$round"))
      pass(b)
    }
    assertEquals(crowd.map(_.heard()), Vector.fill(20)(1))
    crowd.foreach(_.take())
    assertEquals(crowd.map(_.heard()), Vector.fill(20)(1), "what changed meanwhile is told once")
    crowd.foreach(_.take())
    pass(b)
    assertEquals(crowd.map(_.heard()).sum, 0)
  }

  test("a member of many groups hears of each of them") {
    val clock = new ManualClock
    val consumers = new ConsumerGroups[Connection](clock, 1000)
    val news = new GroupNews(consumers, new ClientCalls(clock, 1000), clock)
    val member = new Keeping
    val groups = (0 until 2000).map(i => s"g$i")
    val mode = ConsumeMode("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET")
    groups.foreach { group =>
      val identity = ClientIdentity("c", "PYTHON", 479)
      consumers.register(member, identity, Registration(group, mode, None))
      news.changed(group)
    }
    assertEquals(member.heard, Vector("g0"))
    // From now on it takes everything at once.
    member.takes = true
    member.untaken.foreach(_())
    assertEquals(member.heard, groups.toVector)
  }

  /** A connection that takes nothing until it is told to. */
  private final class Keeping extends Connection {
    var heard = Vector.empty[String]
    var untaken = Vector.empty[() => Unit]
    var takes = false
    override val remoteSocket = new java.net.InetSocketAddress("10.0.0.1", 5555)
    override def send(command: RemotingCommand): Unit =
      heard ++= command.ext("consumerGroup")
    override def sendThen(command: RemotingCommand, taken: () => Unit): Unit = {
      send(command)
      if (takes) taken() else untaken :+= taken
    }
    override def whenWritable(task: () => Unit): Unit = task()
    override def close(): Unit = ()
  }

  broker.test("a member that is slow to take does not keep the others from hearing") { b =>
    val (deaf, other) = (new Deaf(b, 1), new Deaf(b, 2))
    deaf.join("t")
    other.client.isTaking = true
    (0 until 5).foreach { round =>
      other.join("t", s"u$round")
      pass(b)
      assert(other.heard() >= 1)
    }
    assertEquals(deaf.heard(), 1)
  }

  broker.test("a connection is one member of a group") { b =>
    val client = b.connect()
    client.heartbeat("c1", "g", "t")
    client.receive()
    val refused = client.heartbeat("c2", "g", "t")
    assertEquals(refused.code, ResponseCode.InvalidParameter)
    assertEquals(
      refused.remark,
      Some("This connection is the member 'c1' of group g; 'c2' needs another one.")
    )
    assertEquals(client.heartbeat("c1", "g", "t").code, 0)
    val ids = json(client.call(RequestCode.GetConsumerListByGroup, "consumerGroup" -> "g"))
    assertEquals(ids.get("consumerIdList").toString, """["c1"]""")
  }
}
