package rmqordered.handler

import rmqordered.Proves._
import rmqordered.lease.{LeaseFile, LeaseJournal, LeaseSettings, LockOutcome, QueueLockManager}
import rmqordered.model.MessageQueue
import rmqordered.util.{ManualClock, MemoryFile, MemoryJournals}

class LeaseMemorySuite extends munit.FunSuite {
  private val clock = new ManualClock()
  private val locks =
    new QueueLockManager(
      new LeaseJournal(new MemoryJournals, new LeaseFile(new MemoryFile())),
      clock,
      LeaseSettings(60000, 1000)
    )
  private val memory = new LeaseMemory(locks, clock, maxBytes = 10000)

  private def lock(client: String, queueId: Int): LockOutcome = {
    val queue = MessageQueue("t", "b", queueId)
    memory.tryLock("g", client, Seq(queue))(queue)
  }

  test(
    "above the bound nothing new is granted, and what is held is renewed".proves("memory-bounded")
  ) {
    val outcomes = (0 until 30).map(id => lock("c" * 512, id))
    val granted = outcomes.collect { case LockOutcome.Granted(_) => 1 }.sum
    assert(granted > 0 && granted < 30, s"$granted")
    outcomes.last match {
      case LockOutcome.Refused(reason) => assert(reason.contains("10000 bytes"), reason)
      case other => fail(s"$other")
    }
    assert(memory.bytes <= 10000)
    clock.advance(1000)
    (0 until granted).foreach { id =>
      assert(lock("c" * 512, id).isInstanceOf[LockOutcome.Renewed], s"$id")
    }
    assert(lock("c" * 512, 29).isInstanceOf[LockOutcome.Refused])
    locks.unlock("g", "c" * 512, (0 until granted).map(MessageQueue("t", "b", _)))
    clock.advance(1000)
    assert(lock("d", 29).isInstanceOf[LockOutcome.Granted])
  }
}
