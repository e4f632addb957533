package rmqordered.lease

import java.nio.file.Path

import scala.collection.mutable
import scala.util.{Random, Try}

import rmqordered.Proves._
import rmqordered.model.MessageQueue
import rmqordered.store.{JournalFolder, PowerFailure, SimulatedDisk}
import rmqordered.util.{JournalFiles, ManualClock, MemoryFile, MemoryJournals}

/**
 * The lock manager under random locks, unlocks, resets, waits, restarts and disk failures. Without
 * jumps of the clock it is compared with a naive model after every step; with kills at any moment
 * and a clock that is set to anything, what must never happen is looked for. A failing seed is
 * printed.
 */
class QueueLockModelSuite extends munit.FunSuite {
  private val Lifetime = 100L
  private val SaveMs = 20L
  private val clients = Vector("a", "b", "c")
  private val queues = (0 until 3).map(MessageQueue("t", "broker-a", _)).toVector
  // Fewer than there are queues, so that keys are forgotten.
  private val settings = LeaseSettings(Lifetime, maxLeases = 2, renewalSaveMs = SaveMs)

  private def start(files: JournalFiles, clock: ManualClock, maxLeases: Int): QueueLockManager = {
    // So small that journals are full and bases are written all the time.
    val journal = new LeaseJournal(files, new LeaseFile(new MemoryFile()), capacity = 500)
    new QueueLockManager(journal, clock, settings.copy(maxLeases = maxLeases))
  }

  /** What the manager should be, written down without any care for speed or crashes. */
  private final class Model(clock: ManualClock) {
    val owner = mutable.Map.empty[MessageQueue, String]
    val touched = mutable.Map.empty[MessageQueue, Long]
    val epoch = mutable.Map.empty[MessageQueue, Long].withDefaultValue(0L)

    def isLive(queue: MessageQueue): Boolean =
      owner.contains(queue) && clock.monotonicMillis() - touched(queue) <= Lifetime

    def lock(client: String, queue: MessageQueue, diskWorks: Boolean): Boolean =
      if (isLive(queue)) {
        if (owner(queue) == client) touched(queue) = clock.monotonicMillis()
        owner(queue) == client
      } else if (!diskWorks) false
      else {
        owner(queue) = client
        touched(queue) = clock.monotonicMillis()
        epoch(queue) += 1
        true
      }

    def unlock(client: String, queue: MessageQueue): Unit =
      if (owner.get(queue).contains(client)) owner.remove(queue)

    def endEpoch(queue: MessageQueue): Unit = { val _ = owner.remove(queue) }

    /** Who held a queue holds it for one lifetime more; who had expired does not come back. */
    def restart(): Unit = {
      owner.keys.toVector.filterNot(isLive).foreach(endEpoch)
      owner.keys.foreach(queue => touched(queue) = clock.monotonicMillis())
    }
  }

  private def isGranted(outcome: LockOutcome): Boolean = outcome match {
    case LockOutcome.Granted(_) | LockOutcome.Renewed(_) => true
    case LockOutcome.HeldBy(_) | LockOutcome.Refused(_) => false
  }

  private def compare(seed: Int): Unit = {
    val random = new Random(seed)
    val clock = new ManualClock()
    val file = new MemoryJournals
    var locks = start(file, clock, maxLeases = 100)
    val model = new Model(clock)
    (1 to 300).foreach { step =>
      val client = clients(random.nextInt(clients.length))
      val asked = queues.filter(_ => random.nextBoolean())
      val clue = s"seed $seed, step $step"
      random.nextInt(10) match {
        case 0 => clock.advance(random.nextInt(2 * Lifetime.toInt).toLong)
        case 1 =>
          locks.unlock("g", client, asked)
          asked.foreach(model.unlock(client, _))
        case 2 =>
          locks.flush()
          locks = start(file, clock, maxLeases = 100)
          model.restart()
        case 3 if random.nextInt(3) == 0 =>
          file.isBroken = random.nextInt(3) == 0
          if (Try(locks.endEpochs("g", asked)(())).isSuccess) asked.foreach(model.endEpoch)
          file.isBroken = false
        case _ =>
          file.isBroken = random.nextInt(8) == 0
          val outcomes = locks.tryLock("g", client, asked)
          val expected = asked.map(q => q -> model.lock(client, q, !file.isBroken)).toMap
          file.isBroken = false
          assertEquals(
            outcomes.map { case (q, outcome) => q -> isGranted(outcome) },
            expected,
            clue
          )
      }
      queues.foreach { queue =>
        (0L to model.epoch(queue) + 1).foreach { epoch =>
          val expected = model.isLive(queue) && model.epoch(queue) == epoch
          assertEquals(locks.ifCurrent("g", queue, epoch)(()).isRight, expected, clue)
        }
      }
    }
  }

  test("the manager does what a naive model does, whatever happens") {
    (1 to 60).foreach(compare)
  }

  /** What clients were told, by a clock that nobody can set. */
  private final class Told(clock: ManualClock) {
    private val highest = mutable.Map.empty[MessageQueue, Long].withDefaultValue(0L)
    private val owner = mutable.Map.empty[MessageQueue, (String, Long)]
    // How long a client trusts its last answer, and how long its epoch may be live.
    private val trust, until = mutable.Map.empty[(MessageQueue, Long), Long]
    // Where a grant was not answered, and may be recorded all the same.
    private val unsure = mutable.Set.empty[MessageQueue]
    var takeovers, revivals, failures = 0

    def granted(client: String, queue: MessageQueue, lease: Lease, isNew: Boolean): Unit = {
      val now = clock.monotonicMillis()
      owner.get(queue).filter(_._1 != client).foreach { case (other, epoch) =>
        assert(trust((queue, epoch)) < now, s"$client got what $other may still trust in")
        takeovers += 1
      }
      if (isNew || (unsure(queue) && lease.epoch > highest(queue)))
        assert(lease.epoch > highest(queue), s"epoch ${lease.epoch} after ${highest(queue)}")
      else assertEquals(owner.get(queue), Some((client, lease.epoch)), "renewed without a grant")
      highest(queue) = lease.epoch
      unsure -= queue
      owner(queue) = (client, lease.epoch)
      trust((queue, lease.epoch)) = now + Lifetime
      until((queue, lease.epoch)) = now + Lifetime
    }

    /** Nobody need be waited for, and its epoch is over. */
    def ended(queue: MessageQueue): Unit = owner.remove(queue).foreach { case (_, epoch) =>
      until((queue, epoch)) = Long.MinValue
    }

    def unlocked(client: String, queue: MessageQueue): Unit =
      if (owner.get(queue).exists(_._1 == client)) ended(queue)

    /** Asked for, but there was no answer. */
    def asked(queues: Seq[MessageQueue]): Unit = unsure ++= queues

    /** Given back, but there was no answer: the broker may still wait for the owner. */
    def trustsNoMore(queue: MessageQueue, client: Option[String]): Unit =
      owner.get(queue).filter(found => client.forall(_ == found._1)).foreach { case (_, epoch) =>
        trust((queue, epoch)) = Long.MinValue
      }

    /** After a kill the broker counts from its start, and may not know of the last renewals. */
    def restarted(): Unit = {
      val now = clock.monotonicMillis()
      owner.foreach { case (queue, (_, epoch)) =>
        val told = until((queue, epoch))
        if (told != Long.MinValue && now <= told + SaveMs)
          until((queue, epoch)) = now + Lifetime
      }
    }

    def check(locks: QueueLockManager, wasSetBack: Boolean): Unit = queues.foreach { queue =>
      val now = clock.monotonicMillis()
      val live = (1L to highest(queue) + 1).filter(e => locks.ifCurrent("g", queue, e)(()).isRight)
      assert(live.length <= 1, s"epochs $live of one queue are live")
      live.filterNot(epoch => epoch > highest(queue) && unsure(queue)).foreach { epoch =>
        assertEquals(epoch, highest(queue), "a live epoch is not the last one")
        val end = until((queue, epoch))
        assert(end != Long.MinValue, s"epoch $epoch was given back and is live")
        if (!wasSetBack) assert(now <= end, s"epoch $epoch expired at $end and is live at $now")
        revivals += 1
      }
    }
  }

  private def hunt(seed: Int, losesPower: Boolean = false): Told = {
    val random = new Random(seed)
    val clock = new ManualClock()
    val memory = new MemoryJournals
    // Sectors so small that frames and bases are torn.
    val disk = new SimulatedDisk(random, sectorBytes = 32)
    val folder = Path.of("/data")
    disk.createFolder(folder, isForced = true)
    val file = if (losesPower) new JournalFolder(folder, "leases", disk) else memory
    var locks = start(file, clock, settings.maxLeases)
    val told = new Told(clock)
    val mayGoBack = random.nextBoolean()
    def jump(): Unit = {
      val millis = random.nextInt(4 * Lifetime.toInt).toLong
      clock.setBack(if (mayGoBack && random.nextBoolean()) millis else -millis)
    }
    var sinceFlush = 0L
    // The timer runs whatever else does.
    def pass(millis: Long): Unit = {
      val until = clock.monotonicMillis() + millis
      while (clock.monotonicMillis() < until) {
        val chunk = Math.min(until - clock.monotonicMillis(), SaveMs - sinceFlush)
        clock.advance(chunk)
        sinceFlush += chunk
        if (sinceFlush == SaveMs) {
          locks.flush()
          sinceFlush = 0L
        }
      }
    }
    def restart(): Unit = {
      if (random.nextInt(3) == 0) clock.advance(random.nextInt(2 * Lifetime.toInt).toLong)
      locks = start(file, clock, settings.maxLeases)
      told.restarted()
    }
    // The power may fail in the middle of the action; it was not answered then.
    def powered(unanswered: => Unit)(action: => Unit): Unit = {
      if (losesPower && random.nextInt(4) == 0) disk.failAt(1 + random.nextInt(8))
      try action
      catch {
        case _: PowerFailure =>
          told.failures += 1
          unanswered
          disk.crash()
          sinceFlush = 0L
          restart()
      }
    }
    def step(): Unit = {
      val client = clients(random.nextInt(clients.length))
      val asked = queues.filter(_ => random.nextBoolean())
      random.nextInt(14) match {
        case 0 => powered(())(pass(random.nextInt(2 * Lifetime.toInt).toLong))
        case 1 | 2 => powered(())(pass(random.nextInt(Lifetime.toInt / 2).toLong))
        case 3 => jump()
        case 4 =>
          // Killed: whatever was not recorded is gone.
          restart()
        case 5 =>
          powered(asked.foreach(told.trustsNoMore(_, Some(client)))) {
            locks.unlock("g", client, asked)
            asked.foreach(told.unlocked(client, _))
          }
        case 6 if random.nextInt(4) == 0 =>
          powered(queues.foreach(told.trustsNoMore(_, None))) {
            locks.removeTopic("t")
            queues.foreach(told.ended)
          }
        case _ =>
          memory.isBroken = random.nextInt(8) == 0
          powered(told.asked(asked)) {
            locks.tryLock("g", client, asked).foreach {
              case (queue, LockOutcome.Granted(lease)) =>
                told.granted(client, queue, lease, isNew = true)
              case (queue, LockOutcome.Renewed(lease)) =>
                told.granted(client, queue, lease, isNew = false)
              case (_, LockOutcome.HeldBy(_) | LockOutcome.Refused(_)) => ()
            }
          }
          memory.isBroken = false
      }
      told.check(locks, mayGoBack)
    }
    (1 to 300).foreach { at =>
      try step()
      catch { case error: Throwable => throw new AssertionError(s"seed $seed, step $at", error) }
    }
    told
  }

  test("no two clients hold a queue and no epoch comes twice, whatever the clock shows".proves(
    "leases-over-restart"
  )) {
    val runs = (1 to 200).map(hunt(_))
    assert(runs.map(_.takeovers).sum > 200, "hardly anybody took over")
    assert(runs.map(_.revivals).sum > 1000, "hardly any epoch was live")
  }

  test(
    "the same holds when the power fails in the middle of a write, and each start succeeds".proves(
      "leases-over-restart"
    )
  ) {
    val runs = (1 to 25).map(hunt(_, losesPower = true))
    assert(runs.map(_.failures).sum > 200, "hardly any power failure")
    assert(runs.map(_.takeovers).sum > 10, "hardly anybody took over")
  }
}
