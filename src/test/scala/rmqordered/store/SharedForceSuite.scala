package rmqordered.store

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.util.Random

import rmqordered.Proves._
import rmqordered.config.BrokerConfig
import rmqordered.store.StoreFixture._
import rmqordered.util.ManualClock

/** Synchronous sends that come while the disk is busy share the next force. */
class SharedForceSuite extends munit.FunSuite {

  test(
    "sends that wait for the disk together cost one force, not one each".proves("sends-share-force")
  ) {
    val disk = new SimulatedDisk(new Random(1))
    val directory = DataDirectory.open(Path.of("/simulated"), disk)
    val topics = new TopicTable(directory.table("topics"), Seq(topic))
    val config = BrokerConfig.of(small + ("flushDiskType" -> "SYNC_FLUSH"))
    val store = new MessageStore(directory, config, topics, new ManualClock(), (_, _) => ())
    val forces = new AtomicInteger()
    val (reached, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    disk.onForce = () => {
      forces.incrementAndGet()
      reached.countDown()
      goOn.await()
    }
    val done = new CountDownLatch(1 + 4 * 20)
    def send(queueId: Int): Unit =
      store.append(envelope("orders", queueId), Vector(content("x"))) {
        case _: AppendOutcome.Stored => done.countDown()
        case other => throw new AssertionError(s"not stored: $other")
      }
    send(0)
    assert(reached.await(10, TimeUnit.SECONDS), "nothing was forced")
    val senders = (0 until 4).map(q => new Thread(() => (0 until 20).foreach(_ => send(q))))
    senders.foreach(_.start())
    senders.foreach(_.join())
    assertEquals(done.getCount, 81L, "acknowledged before it was forced")
    goOn.countDown()
    assert(done.await(10, TimeUnit.SECONDS), "sends were not acknowledged")
    assertEquals(forces.get(), 2)
    store.close()
  }
}
