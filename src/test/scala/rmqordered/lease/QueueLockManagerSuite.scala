package rmqordered.lease

import rmqordered.Proves._
import rmqordered.model.MessageQueue
import rmqordered.util.{ManualClock, MemoryFile, MemoryJournals}

class QueueLockManagerSuite extends munit.FunSuite {
  private val Lifetime = 60000L
  private val queue = MessageQueue("orders", "broker-a", 0)
  private val other = MessageQueue("orders", "broker-a", 1)

  private final class World(
      val files: MemoryJournals = new MemoryJournals,
      settings: LeaseSettings = LeaseSettings(Lifetime, 1000),
      earlier: MemoryFile = new MemoryFile()
  ) {
    val clock = new ManualClock()
    var locks: QueueLockManager = start()

    def start(): QueueLockManager =
      new QueueLockManager(
        new LeaseJournal(files, new LeaseFile(earlier), capacity = 2000),
        clock,
        settings,
        historyCapacity = 5
      )

    def restart(): Unit = locks = start()

    def lock(client: String, asked: MessageQueue = queue, group: String = "g"): LockOutcome =
      locks.tryLock(group, client, Seq(asked))(asked)

    def epoch(client: String, asked: MessageQueue = queue): Long = lock(client, asked) match {
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

  test(
    "a lease lives its lifetime and is dead strictly after it".proves(
      "crashed-owner-one-lease",
      "stale-lease-refused"
    )
  ) {
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

  test("an unlock by anybody else changes nothing".proves("late-unlock-frees-nothing")) {
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
    val before = world.files.appends.length
    world.locks.tryLock("g", "a", queues)
    assertEquals(world.files.appends.length, before + 1)
    world.locks.tryLock("g", "a", queues)
    assertEquals(world.files.appends.length, before + 1)
  }

  test("a grant that cannot be recorded is not granted") {
    val world = new World
    world.files.isBroken = true
    assert(world.lock("a").isInstanceOf[LockOutcome.Refused])
    assert(!world.isCurrent(1L))
    world.files.isBroken = false
    assertEquals(world.epoch("a"), 1L)
  }

  test("a takeover that cannot be recorded leaves the old epoch dead and gives no new one") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    world.files.isBroken = true
    assert(world.lock("b").isInstanceOf[LockOutcome.Refused])
    assert(!world.isCurrent(1L) && !world.isCurrent(2L))
  }

  test("a renewal needs no write and goes on while the disk is broken") {
    val world = new World
    world.lock("a")
    world.files.isBroken = true
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

  test("an owner that expired before a restart does not live again, and its queue is free") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + 1)
    world.locks.flush()
    world.restart()
    assert(!world.isCurrent(1L))
    assertEquals(world.locks.snapshot().leases.map(_._2.isLive(0L)), Vector(false))
    assertEquals(world.epoch("b"), 2L)
  }

  test("an owner that expired while the broker was down has no epoch, and is waited for") {
    val world = new World
    world.lock("a")
    world.clock.advance(Lifetime + LeaseSettings.RenewalSaveMs + 1)
    world.restart()
    assert(!world.isCurrent(1L))
    // The clock may have been set forward while the owner is at work.
    assert(world.lock("b").isInstanceOf[LockOutcome.HeldBy])
    assert(!world.locks.hasLiveLease("g"))
    world.clock.advance(Lifetime + 1)
    assertEquals(world.epoch("b"), 2L)
  }

  test("who has no epoch after a restart gets a new one, or gives the queue back") {
    Seq(true, false).foreach { isRelocked =>
      val world = new World
      world.lock("a")
      world.clock.advance(2 * Lifetime)
      world.restart()
      if (isRelocked) assertEquals(world.epoch("a"), 2L)
      else {
        world.locks.unlock("g", "a", Seq(queue))
        assertEquals(world.epoch("b"), 2L)
      }
      assert(!world.isCurrent(1L) && world.isCurrent(2L))
    }
  }

  test("an owner that renewed for hours keeps its epoch over a kill") {
    val world = new World
    world.lock("a")
    (0 until 300).foreach { _ =>
      world.clock.advance(Lifetime / 3)
      world.lock("a")
      world.locks.flush()
    }
    world.clock.advance(LeaseSettings.RenewalSaveMs)
    world.lock("a")
    // Killed before this renewal was recorded.
    world.clock.advance(Lifetime)
    world.restart()
    assert(world.isCurrent(1L))
  }

  test("nothing is recorded while nobody renews and nothing expires") {
    val world = new World
    world.lock("a")
    val before = world.files.appends.length
    world.locks.flush()
    assertEquals(world.files.appends.length, before)
    world.lock("a")
    (0 until 3).foreach(_ => world.locks.flush())
    assertEquals(world.files.appends.length, before + 1)
    world.clock.advance(Lifetime + 1)
    (0 until 3).foreach(_ => world.locks.flush())
    assertEquals(world.files.appends.length, before + 2)
  }

  test(
    "under a clock that was set forward or back no epoch is trusted, and nobody else gets in".proves(
      "leases-over-restart"
    )
  ) {
    Seq(3600000L, -3600000L).foreach { jump =>
      val world = new World
      world.lock("a")
      world.clock.setBack(-jump)
      world.restart()
      assert(!world.isCurrent(1L), s"jump $jump")
      assert(world.lock("b").isInstanceOf[LockOutcome.HeldBy], s"jump $jump")
      assertEquals(world.epoch("a"), 2L)
    }
  }

  test("a clock that jumps while the broker runs changes nothing") {
    val world = new World
    world.lock("a")
    Seq(3600000L, -7200000L).foreach { jump =>
      world.clock.setBack(-jump)
      assert(world.isCurrent(1L) && world.lock("b").isInstanceOf[LockOutcome.HeldBy])
      assertEquals(world.epoch("a"), 1L)
    }
    world.locks.flush()
    world.restart()
    assert(world.isCurrent(1L))
  }

  test("when the file of leases is lost, epochs go on above all that were given") {
    val world = new World(settings = LeaseSettings(Lifetime, 1000, floorAfterLoss = 5000L))
    assertEquals(world.epoch("a"), 5001L)
    // The file is there from the first start on, so that its loss is noticed.
    assert(new World().files.bases.nonEmpty)
  }

  test("a full table refuses queues it does not know and serves those it does") {
    val world = new World(settings = LeaseSettings(Lifetime, 1))
    world.lock("a", queue)
    assert(world.lock("a", other).isInstanceOf[LockOutcome.Refused])
    assert(world.lock("a", queue).isInstanceOf[LockOutcome.Renewed])
    world.clock.advance(Lifetime + 1)
    assert(world.lock("b", queue).isInstanceOf[LockOutcome.Granted])
  }

  test("queues that nobody holds take no room, and still no epoch is given twice") {
    val world = new World(settings = LeaseSettings(Lifetime, 3))
    val newest = scala.collection.mutable.Map.empty[MessageQueue, Long].withDefaultValue(0L)
    (0 until 200).foreach { i =>
      val asked = MessageQueue("t", "broker-a", i * 7 % 20)
      val epoch = world.epoch("a", asked)
      assert(epoch > newest(asked), s"queue ${asked.queueId}: $epoch after ${newest(asked)}")
      newest(asked) = epoch
      if (i % 3 == 0) world.clock.advance(Lifetime + 1)
      else world.locks.unlock("g", "a", Seq(asked))
      if (i % 10 == 0) world.restart()
      if (i % 10 == 0) world.clock.advance(Lifetime + 1)
      assert(world.locks.snapshot().leases.length <= 3)
    }
  }

  test("a forgotten queue is not forgotten if that could not be recorded") {
    val world = new World(settings = LeaseSettings(Lifetime, 1))
    world.lock("a", queue)
    world.locks.unlock("g", "a", Seq(queue))
    world.files.isBroken = true
    assert(world.lock("a", other).isInstanceOf[LockOutcome.Refused])
    world.files.isBroken = false
    assertEquals(world.epoch("a", other), 2L)
    world.locks.unlock("g", "a", Seq(other))
    assertEquals(world.epoch("b", queue), 3L)
  }

  test("a deleted topic or group holds nothing, and its epochs are not given again") {
    val world = new World
    world.lock("a", queue)
    world.lock("a", other, group = "h")
    world.locks.removeTopic("no such topic")
    assert(world.isCurrent(1L))
    world.locks.removeGroup("h")
    assertEquals(world.locks.snapshot().leases.map(_._1.group), Vector("g"))
    world.locks.removeTopic("orders")
    assertEquals(world.locks.snapshot().leases, Vector.empty)
    assertEquals(world.locks.snapshot().history.last.reason.text, "deleted")
    assert(!world.isCurrent(1L))
    world.restart()
    assertEquals(world.epoch("b"), 2L)
  }

  test("queues that do not exist can be locked, but fill a tenth of the table only") {
    val world = new World(settings = LeaseSettings(Lifetime, 40, exists = _.topic == "orders"))
    val strange = (0 until 1000).map(MessageQueue("nonsense", "broker-a", _))
    val outcomes = world.locks.tryLock("g", "a", strange)
    assertEquals(outcomes.values.count(_.isInstanceOf[LockOutcome.Granted]), 4)
    outcomes(strange.last) match {
      case LockOutcome.Refused(reason) => assert(reason.contains("does not exist"), reason)
      case outcome => fail(s"$outcome")
    }
    val real = (0 until 40).map(MessageQueue("orders", "broker-a", _))
    val granted = world.locks.tryLock("g", "a", real).values
    assertEquals(granted.count(_.isInstanceOf[LockOutcome.Granted]), 36)
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

  test("what is done under a live epoch is done, under any other it is not".proves(
    "stale-lease-refused"
  )) {
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
      world.locks.endEpochs("g", Seq(queue))(())
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

  test("neither the fence nor a renewal waits for the disk".proves("renewals-on-their-own")) {
    val world = new World
    world.lock("a", other)
    val reached = new java.util.concurrent.CountDownLatch(1)
    val goOn = new java.util.concurrent.CountDownLatch(1)
    world.files.onAppend = () => {
      reached.countDown()
      goOn.await()
    }
    val granting = new Thread(() => { val _ = world.lock("a", queue) })
    granting.start()
    reached.await()
    assert(!world.isCurrent(1L), "granted before it was recorded")
    assert(world.lock("a", other).isInstanceOf[LockOutcome.Renewed])
    assert(world.lock("b", other).isInstanceOf[LockOutcome.HeldBy])
    assert(world.locks.hasLiveLease("g"))
    goOn.countDown()
    granting.join()
    assert(world.isCurrent(1L))
  }

  test("whether a group holds a queue is known without a look at the leases of others".proves(
    "lookups-bounded"
  )) {
    val random = new scala.util.Random(7)
    val clock = new ManualClock()
    val held = scala.collection.mutable.Map.empty[(String, Int), Long]
    val locks = new QueueLockManager(
      new LeaseJournal(new MemoryJournals, new LeaseFile(new MemoryFile()), capacity = 2000),
      clock,
      LeaseSettings(Lifetime, 1000)
    )
    (1 to 3000).foreach { step =>
      val (group, id) = (s"g${random.nextInt(4)}", random.nextInt(5))
      val asked = Seq(MessageQueue("t", "broker-a", id))
      random.nextInt(8) match {
        case 0 => clock.advance(random.nextInt(2 * Lifetime.toInt).toLong)
        case 1 | 2 =>
          locks.unlock(group, "a", asked)
          val _ = held.remove((group, id))
        case 3 if random.nextInt(20) == 0 =>
          locks.removeGroup(group)
          held.keys.filter(_._1 == group).toSeq.foreach(held.remove)
        case _ =>
          locks.tryLock(group, "a", asked)
          held((group, id)) = clock.monotonicMillis() + Lifetime
      }
      locks.flush()
      (0 until 4).foreach { i =>
        val naive = held.exists { case ((g, _), until) =>
          g == s"g$i" && clock.monotonicMillis() <= until
        }
        assertEquals(locks.hasLiveLease(s"g$i"), naive, s"step $step, group g$i")
      }
    }
  }

  test("between the end of an epoch and the reset it is for nobody gets the queue") {
    val world = new World
    world.lock("a")
    val order = new java.util.concurrent.ConcurrentLinkedQueue[String]()
    val taker = new Thread(() => {
      world.lock("b")
      val _ = order.add("granted")
    })
    world.locks.endEpochs("g", Seq(queue)) {
      assert(!world.isCurrent(1L))
      taker.start()
      val deadline = System.nanoTime() + 5000000000L
      def waits =
        Set(Thread.State.BLOCKED, Thread.State.WAITING, Thread.State.TERMINATED)(taker.getState)
      while (!waits && System.nanoTime() < deadline) Thread.onSpinWait()
      order.add("reset")
    }
    taker.join()
    assertEquals(order.toArray.toSeq, Seq[AnyRef]("reset", "granted"))
  }
}
