package rmqordered.net

import java.net.{InetSocketAddress, SocketAddress}

import scala.collection.mutable

import io.netty.channel.embedded.EmbeddedChannel

import rmqordered.Proves._
import rmqordered.handler.Connection
import rmqordered.protocol.{Body, RemotingCommand, RequestCode}
import rmqordered.util.ManualClock

/** Connections of one thread, whose requests take as long as their ids say, in milliseconds. */
class LoopTurnsSuite extends munit.FunSuite {
  private val clock = new ManualClock()
  private val due = mutable.Queue.empty[Runnable]
  private var loop: LoopTurns = _
  private val events = mutable.Buffer.empty[String]

  private final class Client(name: String) extends ConnectionListener {
    private var connection: Connection = _
    private val channel = {
      val limits = ConnectionLimits(1000, 1000000, 100000)
      val memory = new RequestMemory(10000000, clock)
      new EmbeddedChannel(new ClientConnection(this, limits, memory, _ => loop)) {
        override def remoteAddress0(): SocketAddress = new InetSocketAddress("10.0.0.1", 5)
      }
    }

    def write(millis: Int*): Unit = {
      val _ = channel.writeInbound(millis.map(request): _*)
    }

    def leave(): Unit = { val _ = channel.close() }

    def isRead: Boolean = channel.config().isAutoRead

    def goOnWith(event: String): Unit = connection.goOn(() => events += event)

    override def received(command: RemotingCommand, from: Connection): Unit = {
      connection = from
      events += s"$name${command.opaque}"
      clock.advance(command.opaque.toLong)
      from.finished(command)
    }
    override def overloaded(command: RemotingCommand, from: Connection): Unit = ()
    override def disconnected(from: Connection): Unit = events += s"$name gone"
  }

  private def request(millis: Int): RemotingCommand =
    RemotingCommand(RequestCode.PullMessage, "GO", 317, millis, 2, None, None, Body.empty)

  /** The thread has looked at its sockets, and does what is due. */
  private def pass(): Unit = due.dequeueAll(_ => true).foreach(_.run())

  private def taken(): Seq[String] = {
    val all = events.toVector
    events.clear()
    all
  }

  override def beforeEach(context: BeforeEach): Unit = {
    due.clear()
    events.clear()
    loop = new LoopTurns(due.enqueue(_), clock)
  }

  test(
    "a pipeline of heavy requests leaves a turn to everybody after each of them".proves(
      "fair-turns"
    )
  ) {
    val (heavy, other, light) = (new Client("heavy"), new Client("other"), new Client("light"))
    heavy.write(Seq.fill(200)(10): _*)
    assertEquals(taken(), Seq("heavy10"))
    other.write(20, 20)
    assertEquals(taken(), Seq("other20"), "it owed nobody a turn")
    pass()
    assertEquals(taken(), Seq("heavy10"))
    light.write(0)
    assertEquals(taken(), Seq("light0"), "it waits for nobody's pipeline")
    pass()
    assertEquals(taken(), Seq("other20"))
    pass()
    assertEquals(taken(), Seq("heavy10"), "one in each pass")
    assertEquals(due.length, 1)
  }

  test("short requests of a pipeline are served together, in their order") {
    val client = new Client("c")
    client.write(1, 1, 1, 1, 1, 1, 2, 1, 3, 0, 0)
    assertEquals(taken(), Seq.fill(6)("c1"))
    pass()
    assertEquals(taken(), Seq("c2", "c1", "c3"))
    pass()
    assertEquals(taken(), Seq("c0", "c0"))
    assertEquals(due.length, 0)
  }

  test("who has taken much waits for its turn for a while, even with one request at a time") {
    val client = new Client("c")
    client.write(50)
    client.write(0)
    assertEquals(taken(), Seq("c50"))
    pass()
    assertEquals(taken(), Seq("c0"))
    clock.advance(500)
    client.write(0)
    assertEquals(taken(), Seq("c0"), "it is forgotten by now")
  }

  test("who is behind is not read from until it is not") {
    val client = new Client("c")
    client.write(Seq.fill(64)(10): _*)
    assert(client.isRead)
    client.write(10)
    assert(!client.isRead, "64 wait")
    pass()
    assert(client.isRead)
  }

  test("what a client has sent before it left is served in turns, before it is said to be gone") {
    val (leaving, other) = (new Client("leaving"), new Client("other"))
    leaving.write(10, 10, 10)
    leaving.leave()
    assertEquals(taken(), Seq("leaving10"))
    other.write(0)
    pass()
    pass()
    assertEquals(taken(), Seq("other0", "leaving10", "leaving10", "leaving gone"))
    val short = new Client("short")
    short.write(0)
    short.leave()
    assertEquals(taken(), Seq("short0", "short gone"))
  }

  test("a request that goes on does so in the next turn, before those behind it") {
    val client = new Client("c")
    client.write(0)
    client.goOnWith("more")
    assertEquals(taken(), Seq("c0"))
    client.write(1)
    pass()
    assertEquals(taken(), Seq("more", "c1"))
    client.write(10, 10)
    client.goOnWith("more")
    assertEquals(taken(), Seq("c10"))
    pass()
    assertEquals(taken(), Seq("more", "c10"))
  }
}
