package rmqordered.handler

import java.net.InetSocketAddress

import rmqordered.Proves._
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.protocol.RemotingCommand
import rmqordered.store.{ReadLimits, ReadRequest}
import rmqordered.util.ManualClock

class ParkedPullsSuite extends munit.FunSuite {
  private val key = QueueKey("t", 0)
  private val parked = new ParkedPulls(new ManualClock(), 10)
  private var resumed = Vector.empty[String]

  private object Reader extends Connection {
    override val remoteSocket = new InetSocketAddress("1.2.3.4", 5)
    override def send(command: RemotingCommand): Unit = ()
    override def whenWritable(task: () => Unit): Unit = task()
    override def close(): Unit = ()
  }

  private def park(group: String, expressionLength: Int = 1)(resume: => Unit): Boolean = {
    val request = ReadRequest(0L, ReadLimits(1, 1, 1), TagFilter.Everything)
    parked.park(new ParkedPull(
      key,
      group,
      request,
      Reader,
      1000L,
      expressionLength,
      () => resume,
      () => resumed :+= s"$group abandoned"
    ))
  }

  test("a poll that cannot be judged, or fails when it wakes, costs the others nothing".proves(
    "filter-costs-its-own"
  )) {
    park("first")(resumed :+= "first")
    park("unjudgeable")(resumed :+= "unjudgeable")
    park("broken") {
      resumed :+= "broken"
      throw new StackOverflowError("too deep")
    }
    park("last")(resumed :+= "last")
    parked.arrived(key) { pull =>
      if (pull.group == "unjudgeable") throw new StackOverflowError("too deep")
      true
    }
    // Who cannot be judged is woken: looking again, it tells its client what is wrong.
    assertEquals(resumed, Vector("first", "unjudgeable", "broken", "last"))
    assertEquals(parked.size, 0)
  }

  test("a poll whose client is gone is given up once, and not resumed") {
    park("gone")(resumed :+= "resumed")
    parked.disconnect(Reader)
    parked.arrived(key)(_ => true)
    assertEquals(resumed, Vector("gone abandoned"))
  }

  test("expressions that are too long together do not wait") {
    assert(park("first", 1500000)(()))
    assert(!park("second", 600000)(()), "two million characters are the limit")
    assert(park("third", 400000)(()))
    parked.disconnect(Reader)
    assert(park("fourth", 2000000)(()), "there is room again")
    parked.disconnect(Reader)
  }

  override def beforeEach(context: BeforeEach): Unit = resumed = Vector.empty
}
