package rmqordered.lease

import scala.collection.mutable
import scala.util.{Random, Try}

import rmqordered.model.MessageQueue
import rmqordered.util.{ManualClock, MemoryFile}

/**
 * The lock manager against a naive model: random locks, unlocks, waits, restarts and disk failures,
 * compared after every step. A failing seed is printed.
 */
class QueueLockModelSuite extends munit.FunSuite {
  private val Lifetime = 100L
  private val clients = Vector("a", "b", "c")
  private val queues = (0 until 3).map(MessageQueue("t", "broker-a", _)).toVector

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

    def restart(): Unit = owner.keys.foreach(queue => touched(queue) = clock.monotonicMillis())
  }

  private def run(seed: Int): Unit = {
    val random = new Random(seed)
    val clock = new ManualClock()
    val file = new MemoryFile()
    def start() = new QueueLockManager(new LeaseFile(file), clock, Lifetime, 100)
    var locks = start()
    val model = new Model(clock)
    var highest = Map.empty[MessageQueue, Long].withDefaultValue(0L)
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
          locks = start()
          model.restart()
        case 3 if random.nextInt(3) == 0 =>
          file.isBroken = random.nextInt(3) == 0
          if (Try(locks.endEpochs("g", asked)).isSuccess) asked.foreach(model.endEpoch)
          file.isBroken = false
        case _ =>
          // A failing unlock write is covered elsewhere: its effect shows only after a restart.
          file.isBroken = random.nextInt(8) == 0
          val outcomes = locks.tryLock("g", client, asked)
          val expected = asked.map(q => q -> model.lock(client, q, !file.isBroken)).toMap
          file.isBroken = false
          val granted = outcomes.map {
            case (queue, LockOutcome.Granted(_) | LockOutcome.Renewed(_)) => queue -> true
            case (queue, LockOutcome.HeldBy(_) | LockOutcome.Refused(_)) => queue -> false
          }
          assertEquals(granted, expected, clue)
      }
      queues.foreach { queue =>
        (0L to model.epoch(queue) + 1).foreach { epoch =>
          val expected = model.isLive(queue) && model.epoch(queue) == epoch
          assertEquals(locks.ifCurrent("g", queue, epoch)(()).isRight, expected, clue)
        }
        assert(model.epoch(queue) >= highest(queue), s"an epoch went back, $clue")
        highest = highest.updated(queue, model.epoch(queue))
      }
    }
  }

  test("the manager does what a naive model does, whatever happens") {
    (1 to 60).foreach(run)
  }
}
