package rmqordered.handler

import java.net.InetSocketAddress
import java.util.concurrent.RejectedExecutionException

import scala.collection.mutable

import rmqordered.Proves._
import rmqordered.protocol.RemotingCommand

class FairWorkerSuite extends munit.FunSuite {
  private val thread = mutable.Queue.empty[Runnable]
  private var done = Vector.empty[String]

  private final class Named extends Connection {
    override val remoteSocket = new InetSocketAddress("1.2.3.4", 5)
    override def send(command: RemotingCommand): Unit = ()
    override def whenWritable(task: () => Unit): Unit = task()
    override def close(): Unit = ()
  }

  private val (a, b, c) = (new Named, new Named, new Named)

  private def worker(waiting: Int = 100, each: Int = 50) =
    new FairWorker(thread.enqueue(_), waiting, each)

  private def run(): Vector[String] = {
    thread.dequeueAll(_ => true).foreach(_.run())
    val all = done
    done = Vector.empty
    all
  }

  private def give(worker: FairWorker, connection: Connection, tasks: String*): Unit =
    tasks.foreach(task => worker.execute(connection, () => done :+= task))

  test("connections have their turns, each connection's tasks their order".proves("fair-turns")) {
    val fair = worker()
    give(fair, a, (1 to 20).map(i => s"a$i"): _*)
    give(fair, b, "b1", "b2")
    give(fair, c, "c1")
    assertEquals(run().take(7), Vector("a1", "b1", "c1", "a2", "b2", "a3", "a4"))
    assertEquals(fair.size, 0)
  }

  test("one connection fills its own part of the room only".proves("fair-turns")) {
    val fair = worker(waiting = 60, each = 50)
    (1 to 50).foreach(i => give(fair, a, s"a$i"))
    intercept[RejectedExecutionException](give(fair, a, "too many"))
    (1 to 10).foreach(i => give(fair, b, s"b$i"))
    intercept[RejectedExecutionException](give(fair, c, "no room"))
    fair.executeLast(a, () => done :+= "a's end")
    val all = run()
    assertEquals(all.length, 61)
    assertEquals(all.last, "a's end")
    give(fair, c, "room again")
    assertEquals(run(), Vector("room again"))
  }

  test("a thread that has stopped takes nothing, and nothing is kept for it") {
    val stopped = new FairWorker(_ => throw new RejectedExecutionException(), 10, 10)
    intercept[RejectedExecutionException](give(stopped, a, "x"))
    assertEquals(stopped.size, 0)
  }

  override def beforeEach(context: BeforeEach): Unit = {
    thread.clear()
    done = Vector.empty
  }
}
