package rmqordered.lease

import java.io.IOException

import rmqordered.Proves._
import rmqordered.model.MessageQueue
import rmqordered.util.{ManualClock, MemoryFile, MemoryJournals}

/** What grants cost on disk, and what the next start makes of what it finds there. */
class LeaseJournalSuite extends munit.FunSuite {
  private val Lifetime = 60000L
  private val queue = MessageQueue("orders", "broker-a", 0)

  private final class World(floorAfterLoss: Long = 0L, capacity: Int = LeaseJournal.Capacity) {
    val files = new MemoryJournals
    val earlier = new MemoryFile()
    val clock = new ManualClock()
    var locks: QueueLockManager = start(0L)

    private def start(floor: Long): QueueLockManager =
      new QueueLockManager(
        new LeaseJournal(files, new LeaseFile(earlier), capacity),
        clock,
        LeaseSettings(Lifetime, 200000, floorAfterLoss = floor)
      )

    def restart(): Unit = locks = start(floorAfterLoss)

    def lock(client: String, id: Int = 0): LockOutcome = {
      val asked = MessageQueue("orders", "broker-a", id)
      locks.tryLock("g", client, Seq(asked))(asked)
    }

    def epoch(client: String, id: Int = 0): Long = lock(client, id) match {
      case LockOutcome.Granted(lease) => lease.epoch
      case LockOutcome.Renewed(lease) => lease.epoch
      case outcome => fail(s"not granted: $outcome")
    }

    private def others(leases: Int) =
      (0 until leases).map(id => LeaseKey("others", MessageQueue("t", "broker-a", id)))

    /** A start that finds so many leases. */
    def find(leases: Int): Unit = {
      val journal = new LeaseJournal(files, new LeaseFile(earlier))
      journal.load()
      val wall = clock.wallMillis()
      val held = RecordedLease(1L, Some("client"), wall, wall + Lifetime, isEnded = false, wall)
      val all = others(leases).map(_ -> Some(held))
      journal.writeBase(journal.rotate(), Iterator(LeaseChanges(all, 0L, wall)))
      restart()
    }

    def renew(leases: Int): Unit = {
      val _ = locks.tryLock("others", "client", others(leases).map(_.queue))
    }

    /** Where the last piece of the newest journal begins. */
    def lastPiece: (Long, Int) = (files.journals.last, files.appends.dropRight(1).sum)
  }

  test("a grant among 100,000 leases writes the bytes that it writes among 100".proves(
    "grant-cost-constant"
  )) {
    val costs = Seq(100, 100000).map { leases =>
      val world = new World
      world.find(leases)
      world.locks.flush()
      val before = world.files.appends.length
      world.lock("a")
      world.locks.unlock("g", "a", Seq(queue))
      world.files.appends.drop(before)
    }
    assertEquals(costs(1), costs.head)
    assertEquals(costs.head.length, 2)
    assert(costs.head.forall(_ < 200), s"$costs")
  }

  test("a flush writes what was renewed, in steps, and nobody is kept out of it by the rest") {
    val world = new World
    world.find(5000)
    world.locks.flush()
    val before = world.files.appends.length
    world.renew(2500)
    world.locks.flush()
    val steps = world.files.appends.drop(before)
    assertEquals(steps.length, 3)
    assert(steps.forall(_ < 100000), s"$steps")
  }

  test("a journal that has grown is replaced by a base, and a restart finds everything") {
    val world = new World(capacity = 2000)
    (1 to 300).foreach { round =>
      assertEquals(world.epoch("a", round % 3), 1L + (round - 1) / 3, s"round $round")
      world.locks.unlock("g", "a", Seq(MessageQueue("orders", "broker-a", round % 3)))
      world.locks.flush()
      if (round % 50 == 0) world.restart()
      assert(world.files.journals.length < 30, s"${world.files.journals}")
    }
    assertEquals(world.files.bases.length, 1)
    assert(world.files.bases.head > 3L)
  }

  test("what is granted while a base is written is in the journals behind it") {
    val world = new World(capacity = 400)
    world.lock("a", 1)
    (1 to 50).foreach { _ =>
      world.lock("a")
      world.locks.unlock("g", "a", Seq(queue))
    }
    world.files.onAppend = () => ()
    world.locks.flush()
    val last = world.epoch("b")
    world.restart()
    assertEquals(world.locks.ifCurrent("g", queue, last)(()).isRight, true)
    assertEquals(world.epoch("a", 1), 1L)
  }

  test("many starts leave no more journals than a few") {
    val world = new World(capacity = 1000)
    (1 to 50).foreach { round =>
      world.lock("a", round)
      world.restart()
      world.locks.flush()
      assert(world.files.journals.length <= 11, s"round $round: ${world.files.journals}")
    }
    assertEquals((1 to 50).map(world.epoch("a", _)).toSet, Set(1L))
  }

  test("a torn end is cut off, and no epoch of it is given again".proves("leases-over-restart")) {
    val world = new World(floorAfterLoss = 5000L)
    val first = world.epoch("a")
    world.files.isBroken = true
    assert(world.lock("b", 1).isInstanceOf[LockOutcome.Refused])
    world.files.isBroken = false
    world.restart()
    assertEquals(world.epoch("a"), first)
    assert(world.epoch("b", 1) > 5000L, "an epoch of the torn part may have been given")
  }

  test("an acknowledged grant that the disk lost at the end brings no epoch twice") {
    val world = new World(floorAfterLoss = 5000L)
    world.locks.unlock("g", "a", Seq(queue))
    world.lock("c", 7)
    world.epoch("a")
    val (number, at) = world.lastPiece
    world.files.damage(number, at + 20)
    world.restart()
    assert(world.epoch("b") > 5000L)
  }

  test("damage in front of whole pieces stops the broker with file, byte and the way out".proves(
    "leases-over-restart"
  )) {
    (0 until 40).foreach { offset =>
      val world = new World(capacity = 1000)
      world.lock("a")
      val (number, at) = world.lastPiece
      world.lock("b", 1)
      world.files.damage(number, at + offset)
      val problem = intercept[IOException](world.restart()).getMessage
      assert(problem.contains(s"memory.$number.journal is damaged at byte $at"), problem)
      assert(problem.contains("delete all files of that name"), problem)
    }
  }

  test("a damaged base stops the broker, wherever the damage is") {
    Seq(0, 5, 10, 15, 30).foreach { at =>
      val world = new World
      val base = world.files.bases.last
      val journals = world.files.journals
      world.files.deleteBelow(0)
      val content = world.files.readBase(base)
      assert(at < content.length && journals.nonEmpty)
      world.files.damageBase(base, at)
      val problem = intercept[IOException](world.restart()).getMessage
      assert(problem.contains(s"$base.base is damaged"), problem)
    }
  }

  test("when everything is lost, or the first journal is, epochs go on above all that were given") {
    Seq[MemoryJournals => Unit](
      files => files.forget(),
      files => files.forgetJournals(),
      files => files.forgetBases()
    ).foreach { lose =>
      val world = new World(floorAfterLoss = 5000L)
      world.epoch("a")
      lose(world.files)
      world.restart()
      world.clock.advance(Lifetime + 1)
      assert(world.epoch("b", 1) > 5000L)
      assert(world.epoch("c") > 5000L)
    }
  }

  private val old =
    """{"floor":7,"leases":[
      |{"brokerName":"broker-a","clientId":"a","epoch":3,"expiresAt":99999999999999,"grantedAt":1,
      | "group":"g","queueId":0,"topic":"orders"},
      |{"brokerName":"broker-a","epoch":5,"group":"g","queueId":1,"topic":"orders"}],
      |"savedAt":1}""".stripMargin

  test("the leases of earlier versions are read, and their file goes with the first base") {
    val world = new World(capacity = 300)
    world.files.forget()
    world.earlier.replace(old.getBytes)
    world.restart()
    assert(world.locks.ifCurrent("g", queue, 3L)(()).isRight)
    assert(world.lock("b").isInstanceOf[LockOutcome.HeldBy])
    assertEquals(world.epoch("b", 1), 8L)
    world.restart()
    assertEquals(world.epoch("b", 1), 8L)
    assertEquals(world.epoch("b", 2), 8L)
    while (world.earlier.text.nonEmpty) {
      world.locks.unlock("g", "b", Seq(MessageQueue("orders", "broker-a", 2)))
      world.lock("b", 2)
      world.locks.flush()
    }
    world.restart()
    assertEquals(world.epoch("b", 1), 8L)
    assertEquals(world.epoch("a"), 3L)
  }

  test("after a stay at an earlier version the higher epoch of each queue counts") {
    val world = new World
    assertEquals(world.epoch("x"), 1L)
    world.lock("x", 2)
    world.earlier.replace(old.getBytes)
    world.restart()
    assert(world.locks.ifCurrent("g", queue, 3L)(()).isRight)
    assertEquals(world.epoch("x", 2), 1L)
    assertEquals(world.epoch("b", 1), 8L)
  }
}
