package rmqordered.lease

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.collection.mutable
import scala.util.Random

import rmqordered.Proves._
import rmqordered.model.MessageQueue
import rmqordered.util.{Eventually, ManualClock, MemoryFile, MemoryJournals, MemoryRecords}

/** Which runs may write: by the rules one by one, against a naive model, and from many threads. */
class ReadingRunsSuite extends munit.FunSuite {
  private val Lifetime = 100L
  private val queues = (0 until 3).map(MessageQueue("t", "broker-a", _)).toVector
  private val few = RunLimits(maxRuns = 3, maxReads = 5, maxRunsPerRead = 2, memoryMs = 1000L)
  private val many = RunLimits(1000, 1000, 100, memoryMs = 1000000L)

  private final class Rig(val limits: RunLimits = many) {
    val clock = new ManualClock()
    private val files = new MemoryJournals
    var records = new MemoryRecords()
    var locks: QueueLockManager = newLocks()
    var runs: ReadingRuns = newRuns()

    private def newLocks() =
      new QueueLockManager(
        new LeaseJournal(files, new LeaseFile(new MemoryFile())),
        clock,
        LeaseSettings(Lifetime, 100)
      )
    private def newRuns() = new ReadingRuns(records, locks, clock, limits)

    def restart(): Unit = {
      records = records.restarted
      locks = newLocks()
      runs = newRuns()
    }

    /** The epoch, if the client has the queue now. */
    def lock(client: String, queue: MessageQueue, group: String = "g"): Option[GrantedQueue] =
      locks.tryLock(group, client, Seq(queue))(queue) match {
        case LockOutcome.Granted(lease) => Some(GrantedQueue(LeaseKey(group, queue), lease.epoch))
        case LockOutcome.Renewed(lease) => Some(GrantedQueue(LeaseKey(group, queue), lease.epoch))
        case _ => None
      }

    def name(run: String, grant: GrantedQueue, user: String = ""): NamingOutcome =
      runs.named(run, user, grant)(_ => ())

    def mayWrite(run: String): Boolean = runs.ifWriting(run)(()).isRight

    def giveBack(client: String, queue: MessageQueue): Unit = {
      runs.givenBack(locks.heldBy("g", client, Seq(queue)))
      locks.unlock("g", client, Seq(queue))
    }
  }

  private def reading(rig: Rig, run: String = "run"): Unit =
    queues.take(2).foreach(queue => rig.name(run, rig.lock("a", queue).get))

  test("a run writes while all its leases live, and a run that read nothing here always".proves(
    "former-owner-writes-nothing"
  )) {
    val rig = new Rig
    assert(rig.mayWrite("stranger"))
    reading(rig)
    assert(rig.mayWrite("run"))
    rig.clock.advance(Lifetime)
    assert(rig.mayWrite("run"))
    rig.lock("a", queues(0))
    rig.clock.advance(1)
    assert(!rig.mayWrite("run"), "one of two expired")
    assertEquals(
      rig.runs.ifWriting("run")(()),
      Left(LostRun("run", Some(GrantedQueue(LeaseKey("g", queues(1)), 1L))))
    )
    assert(rig.mayWrite("stranger"))
  }

  test("whatever ends a lease fences its run for good, but for what the run gives back itself") {
    val ends = Seq[(String, (Rig, GrantedQueue) => Unit)](
      "expiry" -> ((rig, _) => rig.clock.advance(Lifetime + 1)),
      "unlock" -> ((rig, grant) => rig.locks.unlock("g", "a", Seq(grant.key.queue))),
      "reset" -> ((rig, grant) => rig.locks.endEpochs("g", Seq(grant.key.queue))(())),
      "group deleted" -> ((rig, _) => rig.locks.removeGroup("g"))
    )
    ends.foreach { case (what, end) =>
      val rig = new Rig
      reading(rig)
      end(rig, GrantedQueue(LeaseKey("g", queues(1)), 1L))
      assert(!rig.mayWrite("run"), what)
      // Its own client has the queue again: what was read before may be somebody else's by now.
      queues.take(2).foreach(queue => rig.name("run", rig.lock("a", queue).get))
      assert(!rig.mayWrite("run"), s"$what, locked again")
      rig.runs.sweep()
      rig.restart()
      assert(!rig.mayWrite("run"), s"$what, restarted")
    }
  }

  test("what a run gives back while it goes on is not lost; with nothing left it does not write") {
    val rig = new Rig
    reading(rig)
    rig.giveBack("a", queues(1))
    rig.lock("b", queues(1))
    assert(rig.mayWrite("run"))
    rig.restart()
    assert(rig.mayWrite("run"), "restarted")
    rig.giveBack("a", queues(0))
    assertEquals(rig.runs.ifWriting("run")(()), Left(LostRun("run", None)))
    rig.name("run", rig.lock("a", queues(2)).get)
    assert(rig.mayWrite("run"), "it has a share again")
  }

  test("a read is served when its run is on disk, not before; a record that fails refuses it") {
    val rig = new Rig
    val grant = rig.lock("a", queues(0)).get
    rig.records.isHeld = true
    var told = Vector.empty[Boolean]
    def name(): NamingOutcome =
      rig.runs.named("run", "", grant)(failure => told = told :+ failure.isEmpty)
    assertEquals(Seq(name(), name()), Seq(NamingOutcome.Waits, NamingOutcome.Waits))
    assertEquals(told, Vector.empty)
    rig.records.isBroken = true
    rig.records.settle()
    assertEquals(told, Vector(false, false))
    rig.records.isBroken = false
    assertEquals(name(), NamingOutcome.Waits)
    rig.records.settle()
    assertEquals(told, Vector(false, false, true))
    assertEquals(name(), NamingOutcome.Served)
    assertEquals(
      rig.records.appended,
      1,
      "one record for a run and a lease, however often it reads"
    )
  }

  test("the table is bounded: a full one takes no run, and forgets none that may still write") {
    val rig = new Rig(few)
    val grants = queues.map(rig.lock("a", _).get)
    assertEquals(rig.name("r0", grants(0)), NamingOutcome.Waits)
    assertEquals(rig.name("r1", grants(0)), NamingOutcome.Waits)
    assertEquals(rig.name("r2", grants(0)), NamingOutcome.Served, "not as its own")
    assertEquals(rig.runs.size, (2, 2))
    assertEquals(rig.name("r2", grants(1)), NamingOutcome.Waits)
    assert(rig.name("r3", grants(2)).isInstanceOf[NamingOutcome.Refused], "all runs in use")
    assertEquals(rig.name("r0", grants(1)), NamingOutcome.Waits)
    assertEquals(rig.name("r0", grants(2)), NamingOutcome.Waits)
    assert(rig.name("r1", grants(2)).isInstanceOf[NamingOutcome.Refused], "all reads in use")
    rig.clock.advance(Lifetime + 1)
    rig.runs.sweep()
    rig.clock.advance(few.memoryMs)
    rig.runs.sweep()
    assertEquals((rig.runs.size, rig.mayWrite("r0")), ((3, 0), false))
    rig.clock.advance(1)
    rig.runs.sweep()
    assertEquals(rig.runs.size, (0, 0))
    rig.restart()
    assertEquals(rig.runs.size, (0, 0))
  }

  test("a run belongs to the user who named it first, and to all groups of that user's") {
    val rig = new Rig
    rig.name("run", rig.lock("a", queues(0)).get, user = "ann")
    val other = rig.lock("b", queues(0), group = "h").get
    assertEquals(rig.name("run", other, user = "mallory"), NamingOutcome.Served)
    rig.locks.unlock("h", "b", Seq(queues(0)))
    assert(rig.mayWrite("run"), "a stranger's lease does not count")
    rig.name("run", rig.lock("c", queues(1), group = "h").get, user = "ann")
    rig.locks.unlock("h", "c", Seq(queues(1)))
    assert(!rig.mayWrite("run"), "its user's does")
  }

  test("the end of a topic is nobody's loss") {
    val rig = new Rig
    reading(rig)
    val other = MessageQueue("u", "broker-a", 0)
    rig.name("run", rig.lock("a", other).get)
    rig.runs.removeTopic("u")
    rig.locks.removeTopic("u")
    assert(rig.mayWrite("run"))
  }

  /** Against what the promise says, over restarts. */
  private def compare(seed: Int): Int = {
    val random = new Random(seed)
    val rig = new Rig
    val clients = Vector("a", "b", "c")
    // One run per client until its client starts another one.
    val generation = mutable.Map.empty[String, Int].withDefaultValue(0)
    def runOf(client: String) = s"$client-${generation(client)}"
    val reads = mutable.Map.empty[String, Map[LeaseKey, Long]].withDefaultValue(Map.empty)
    val lost = mutable.Set.empty[String]
    var refusals = 0
    (1 to 200).foreach { step =>
      val client = clients(random.nextInt(clients.length))
      val queue = queues(random.nextInt(queues.length))
      random.nextInt(12) match {
        case 0 => rig.clock.advance(random.nextInt(2 * Lifetime.toInt).toLong)
        case 1 =>
          val held = rig.locks.heldBy("g", client, Seq(queue))
          held.foreach(grant =>
            reads.foreach { case (run, all) =>
              if (all.get(grant.key).contains(grant.epoch)) reads(run) = all - grant.key
            }
          )
          rig.giveBack(client, queue)
        case 2 => rig.locks.unlock("g", client, Seq(queue))
        case 3 => generation(client) += 1
        case 4 => rig.runs.sweep()
        case 5 if random.nextInt(3) == 0 =>
          rig.locks.flush()
          rig.restart()
        case _ =>
          rig.lock(client, queue).foreach { grant =>
            val run = runOf(client)
            rig.name(run, grant)
            if (reads(run).get(grant.key).exists(_ != grant.epoch)) lost += run
            reads(run) = reads(run).updated(grant.key, grant.epoch)
          }
      }
      reads.foreach { case (run, all) =>
        val live = rig.locks.verify(all).isRight
        if (!live) lost += run
        val expected = !lost(run) && all.nonEmpty
        if (!expected) refusals += 1
        assertEquals(rig.mayWrite(run), expected, s"seed $seed, step $step, $run")
      }
    }
    refusals
  }

  test("runs write exactly as long as they should, whatever happens") {
    assert((1 to 20).map(compare).sum > 300, "hardly anything was refused")
  }

  test("a grant is answered when what its queue's earlier readers write has landed") {
    val rig = new Rig
    reading(rig)
    val mayLand, isIn = new CountDownLatch(1)
    val landed, answered = new AtomicBoolean(false)
    val writer = new Thread(() => {
      val _ = rig.runs.ifWriting("run") {
        isIn.countDown()
        mayLand.await()
        assert(!answered.get, "landed behind the grant")
        landed.set(true)
      }
    })
    writer.start()
    isIn.await()
    rig.locks.unlock("g", "a", Seq(queues(0)))
    val grant = rig.lock("b", queues(0)).get
    rig.runs.whenWritten(Seq(grant))(() => answered.set(true))
    // Refused writes of the old run, however many, hold up nobody.
    assert(!rig.mayWrite("run"))
    // Neither does the write hold up anybody else.
    var isRenewed = false
    rig.runs.whenWritten(rig.lock("c", queues(2)))(() => isRenewed = true)
    rig.runs.sweep()
    assertEquals((answered.get, isRenewed), (false, true))
    mayLand.countDown()
    Eventually(answered.get)
    assert(landed.get)
    writer.join()
  }

  test("once a grant is answered nothing of an earlier reader lands, from many threads".proves(
    "former-owner-writes-nothing"
  )) {
    val rig = new Rig
    val owner = new AtomicInteger(0)
    val isOver = new AtomicBoolean(false)
    val behind, stored = new AtomicInteger(0)
    rig.name("run-0", rig.lock("client-0", queues(0)).get)
    val writers = (0 until 4).map { _ =>
      val thread = new Thread(() =>
        while (!isOver.get) {
          val mine = owner.get
          // Some hold on to a run that was the owner's a moment ago.
          (Math.max(mine - 1, 0) to mine).foreach { number =>
            val _ = rig.runs.ifWriting(s"run-$number") {
              Thread.`yield`()
              if (owner.get > number) behind.incrementAndGet() else stored.incrementAndGet()
            }
          }
        }
      )
      thread.start()
      thread
    }
    (1 to 60).foreach { number =>
      val before = stored.get
      Eventually(stored.get > before)
      rig.locks.unlock("g", s"client-${number - 1}", Seq(queues(0)))
      val grant = rig.lock(s"client-$number", queues(0)).get
      val isAnswered = new CountDownLatch(1)
      rig.runs.whenWritten(Seq(grant)) { () =>
        owner.set(number)
        isAnswered.countDown()
      }
      isAnswered.await()
      rig.name(s"run-$number", grant)
    }
    isOver.set(true)
    writers.foreach(_.join())
    assertEquals(behind.get, 0)
  }
}
