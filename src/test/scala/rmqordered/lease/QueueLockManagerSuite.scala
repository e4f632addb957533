package rmqordered.lease

import rmqordered.model.MessageQueue
import rmqordered.util.{ManualClock, MemoryFile}

class QueueLockManagerSuite extends munit.FunSuite {
  private val Lifetime = 60000L
  private val queue = MessageQueue("orders", "broker-a", 0)
  private val other = MessageQueue("orders", "broker-a", 1)

  private final class World(val file: MemoryFile = new MemoryFile(), maxLeases: Int = 1000) {
    val clock = new ManualClock()
    var locks: QueueLockManager = start()

    def start(): QueueLockManager =
      new QueueLockManager(new LeaseFile(file), clock, Lifetime, maxLeases, historyCapacity = 5)

    def restart(): Unit = locks = start()

    def lock(client: String, asked: MessageQueue = queue, group: String = "g"): LockOutcome =
      locks.tryLock(group, client, Seq(asked))(asked)

    def epoch(client: String): Long = lock(client) match {
      case LockOutcome.Granted(lease) => lease.epoch
      case LockOutcome.Renewed(lease) => lease.epoch
      case outcome => fail(s"not granted: $outcome")
    }

    def isCurrent(epoch: Long): Boolean = locks.ifCurrent("g", queue, epoch)(()).isRight
  }

  test("a free queue is granted under epoch 1") {
    val world = new World
    assertEquals(world.epoch("a"), 1L)
    assert(world.isCurrent(1L))
  }

  test("a lock is refused while another client holds it, and names the holder") {
    val world = new World
    world.lock("a")
    world.lock("b") match {
      case LockOutcome.HeldBy(lease) => assertEquals((lease.clientId, lease.epoch), ("a", 1L))
      case outcome => fail(s"$outcome")
    }
  }

  test("a renewal keeps the epoch and starts the life anew") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime)
    assertEquals(world.epoch("a"), 1L)
    world.clock.advance(Lifetime)
    assert(world.isCurrent(1L))
  }

  test("a lease lives its lifetime and is dead strictly after it") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime)
    assert(world.isCurrent(1L))
    assert(world.lock("b").isInstanceOf[LockOutcome.HeldBy])
    world.clock.advance(1)
    assert(!world.isCurrent(1L))
    assertEquals(world.epoch("b"), 2L)
  }

  test("an owner that comes back too late gets a new epoch") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    assertEquals(world.epoch("a"), 2L)
    assert(!world.isCurrent(1L))
  }

  test("an unlock frees the queue at once and ends the epoch") {
    val world = new World
    world.lock("a")
    world.locks.unlock("g", "a", Seq(queue))
    assert(!world.isCurrent(1L))
    assertEquals(world.epoch("b"), 2L)
  }

  test("an unlock by anybody else changes nothing") {
    val world = new World
    world.lock("a")
    world.locks.unlock("g", "b", Seq(queue))
    world.locks.unlock("other group", "a", Seq(queue))
    assert(world.isCurrent(1L))
  }

  test("an expired lease can still be unlocked by its owner") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    world.locks.unlock("g", "a", Seq(queue))
    assertEquals(world.locks.snapshot().leases, Vector.empty)
  }

  test("queues of one request are judged each on its own") {
    val world = new World
    world.lock("a", queue)
    val outcomes = world.locks.tryLock("g", "b", Seq(queue, other, other))
    assert(outcomes(queue).isInstanceOf[LockOutcome.HeldBy])
    assert(outcomes(other).isInstanceOf[LockOutcome.Granted])
  }

  test("groups do not share locks") {
    val world = new World
    world.lock("a", group = "g")
    assert(world.lock("b", group = "h").isInstanceOf[LockOutcome.Granted])
    assert(world.locks.hasLiveLease("h"))
    assert(!world.locks.hasLiveLease("i"))
  }

  test("a batch of grants is one write, and renewals are none") {
    val world = new World
    val queues = (0 until 100).map(MessageQueue("t", "broker-a", _))
    world.locks.tryLock("g", "a", queues)
    assertEquals(world.file.replacements, 1)
    world.locks.tryLock("g", "a", queues)
    assertEquals(world.file.replacements, 1)
  }

  test("a grant that cannot be recorded is not granted") {
    val world = new World
    world.file.isBroken = true
    assert(world.lock("a").isInstanceOf[LockOutcome.Refused])
    assert(!world.isCurrent(1L))
    world.file.isBroken = false
    assertEquals(world.epoch("a"), 1L)
  }

  test("a takeover that cannot be recorded leaves the old epoch dead and gives no new one") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    world.file.isBroken = true
    assert(world.lock("b").isInstanceOf[LockOutcome.Refused])
    assert(!world.isCurrent(1L) && !world.isCurrent(2L))
  }

  test("a renewal needs no write and goes on while the disk is broken") {
    val world = new World
    world.lock("a")
    world.file.isBroken = true
    assert(world.lock("a").isInstanceOf[LockOutcome.Renewed])
  }

  test("after a restart the recorded owner keeps its queue and epoch for one lifetime") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime - 1)
    world.restart()
    world.clock.advance(Lifetime)
    assert(world.isCurrent(1L))
    assert(world.lock("b").isInstanceOf[LockOutcome.HeldBy])
    world.clock.advance(1)
    assertEquals(world.epoch("b"), 2L)
  }

  test("after a restart a queue that was given back is free, and its epoch is not reused") {
    val world = new World
    world.lock("a")
    world.locks.unlock("g", "a", Seq(queue))
    world.restart()
    assertEquals(world.epoch("b"), 2L)
  }

  test("a full table refuses queues it does not know and serves those it does") {
    val world = new World(maxLeases = 1)
    world.lock("a", queue)
    assert(world.lock("a", other).isInstanceOf[LockOutcome.Refused])
    assert(world.lock("a", queue).isInstanceOf[LockOutcome.Renewed])
    world.clock.advance(Lifetime + 1)
    assert(world.lock("b", queue).isInstanceOf[LockOutcome.Granted])
  }

  test("a stale check tells the holder and the last epoch") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    world.lock("b")
    world.locks.ifCurrent("g", queue, 1L)(()) match {
      case Left(StaleEpoch(Some(lease), last)) =>
        assertEquals((lease.clientId, lease.epoch, last), ("b", 2L, 2L))
      case outcome => fail(s"$outcome")
    }
    assertEquals(world.locks.ifCurrent("g", other, 1L)(()), Left(StaleEpoch(None, 0L)))
  }

  test("the history tells every change of owner, the last ones only") {
    val world = new World
    world.lock("a")
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    world.lock("b")
    world.locks.unlock("g", "b", Seq(queue))
    val events = world.locks.snapshot().history
    assertEquals(
      events.map(e => (e.previousOwner, e.owner, e.epoch, e.reason.text)),
      Vector(
        (None, Some("a"), 1L, "granted"),
        (Some("a"), Some("b"), 2L, "takeover-after-expiry"),
        (Some("b"), None, 2L, "unlocked")
      )
    )
    (0 until 10).foreach(i => world.lock("c", MessageQueue("t", "broker-a", i)))
    assertEquals(world.locks.snapshot().history.length, 5)
  }

  test("what is done under a live epoch is done, under any other it is not") {
    val world = new World
    world.lock("a")
    assertEquals(world.locks.ifCurrent("g", queue, 1L)("done"), Right("done"))
    var ran = false
    val stale = world.locks.ifCurrent("g", queue, 2L) { ran = true }
    assertEquals((stale.isLeft, ran), (true, false))
    world.clock.advance(Lifetime + 1)
    assert(world.locks.ifCurrent("g", queue, 1L)(()).isLeft)
  }

  test("nobody is granted a queue while a fenced action of its owner runs") {
    val world = new World
    world.lock("a")
    val order = new java.util.concurrent.ConcurrentLinkedQueue[String]()
    val entered = new java.util.concurrent.CountDownLatch(1)
    val taker = new Thread(() => {
      entered.await()
      world.locks.unlock("g", "a", Seq(queue))
      world.lock("b")
      val _ = order.add("granted to b")
    })
    taker.start()
    world.locks.ifCurrent("g", queue, 1L) {
      entered.countDown()
      // The taker gets as far as it can: it waits for the table, or has not come that far.
      val deadline = System.nanoTime() + 5000000000L
      while (taker.getState != Thread.State.BLOCKED && System.nanoTime() < deadline)
        Thread.onSpinWait()
      order.add("action of a")
    }
    taker.join()
    assertEquals(order.toArray.toSeq, Seq[AnyRef]("action of a", "granted to b"))
  }

  test("a reset waits for a fenced action that has begun, and its owner is refused afterwards") {
    val world = new World
    world.lock("a")
    val order = new java.util.concurrent.ConcurrentLinkedQueue[String]()
    val resetting = new Thread(() => {
      world.locks.endEpochs("g", Seq(queue))
      val _ = order.add("reset")
    })
    world.locks.ifCurrent("g", queue, 1L) {
      resetting.start()
      val deadline = System.nanoTime() + 5000000000L
      while (resetting.getState != Thread.State.BLOCKED && System.nanoTime() < deadline)
        Thread.onSpinWait()
      order.add("action of a")
    }
    resetting.join()
    assertEquals(order.toArray.toSeq, Seq[AnyRef]("action of a", "reset"))
    assert(world.locks.ifCurrent("g", queue, 1L)(()).isLeft)
    world.lock("a")
    assert(world.locks.ifCurrent("g", queue, 2L)(()).isRight)
  }

  test("the fence does not wait for the disk") {
    val reached = new java.util.concurrent.CountDownLatch(1)
    val goOn = new java.util.concurrent.CountDownLatch(1)
    val slow = new rmqordered.util.SmallFile {
      override def name: String = "slow"
      override def read(): Option[Array[Byte]] = None
      override def replace(content: Array[Byte]): Unit = {
        reached.countDown()
        goOn.await()
      }
    }
    val locks = new QueueLockManager(new LeaseFile(slow), new ManualClock(), Lifetime, 10)
    val granting = new Thread(() => { val _ = locks.tryLock("g", "a", Seq(queue)) })
    granting.start()
    reached.await()
    assert(locks.ifCurrent("g", queue, 1L)(()).isLeft, "granted before it was recorded")
    goOn.countDown()
    granting.join()
    assert(locks.ifCurrent("g", queue, 1L)(()).isRight)
  }
}
