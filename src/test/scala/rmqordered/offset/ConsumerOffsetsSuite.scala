package rmqordered.offset

import rmqordered.Proves._
import rmqordered.model.QueueKey
import rmqordered.util.MemoryFile

class ConsumerOffsetsSuite extends munit.FunSuite {
  private val key = OffsetKey("g", QueueKey("t", 3))

  test("offsets survive a restart once flushed, in RocketMQ's form as strict JSON") {
    val file = new MemoryFile()
    val offsets = new ConsumerOffsets(file)
    offsets.commit(key, 42L)
    offsets.commit(OffsetKey("g", QueueKey("%RETRY%g", 0)), 1L)
    offsets.flush()
    assertEquals(file.text, """{"offsetTable":{"%RETRY%g@g":{"0":1},"t@g":{"3":42}}}""")
    assertEquals(new ConsumerOffsets(file).get(key), Some(42L))
  }

  test("a plain commit may go back") {
    val offsets = new ConsumerOffsets(new MemoryFile())
    offsets.commit(key, 42L)
    offsets.commit(key, 7L)
    assertEquals(offsets.get(key), Some(7L))
  }

  test("a commit under a lease may stay but not go back".proves("lease-commit-never-back")) {
    val offsets = new ConsumerOffsets(new MemoryFile())
    assertEquals(offsets.commitForward(key, 42L), CommitOutcome.Committed: CommitOutcome)
    assertEquals(offsets.commitForward(key, 42L), CommitOutcome.Committed: CommitOutcome)
    assertEquals(offsets.commitForward(key, 41L), CommitOutcome.WentBack(42L): CommitOutcome)
    assertEquals(offsets.get(key), Some(42L))
  }

  test("only a fenced commit makes the short interval write".proves("lease-commit-never-back")) {
    val file = new MemoryFile()
    val offsets = new ConsumerOffsets(file)
    offsets.commit(key, 1L)
    offsets.flushFenced()
    assertEquals(file.replacements, 0)
    offsets.commitForward(key, 2L)
    offsets.flushFenced()
    assertEquals(file.replacements, 1)
  }

  test("nothing is written when nothing changed, and a failed write is tried again") {
    val file = new MemoryFile()
    val offsets = new ConsumerOffsets(file)
    offsets.flush()
    assertEquals(file.replacements, 0)
    offsets.commit(key, 1L)
    file.isBroken = true
    offsets.flush()
    file.isBroken = false
    offsets.flush()
    assertEquals(new ConsumerOffsets(file).get(key), Some(1L))
  }

  test("offsets beyond the end of their queue are set back to it, others stay".proves(
    "acked-survives-power-failure"
  )) {
    val file = new MemoryFile()
    val offsets = new ConsumerOffsets(file)
    val other = OffsetKey("g", QueueKey("t", 4))
    offsets.commit(key, 42L)
    offsets.commit(other, 5L)
    offsets.clampTo(queue => if (queue.queueId == 3) 40L else 9L)
    assertEquals((offsets.get(key), offsets.get(other)), (Some(40L), Some(5L)))
    // At once, not with the next flush: messages will get the offsets from 40 on.
    assertEquals(new ConsumerOffsets(file).get(key), Some(40L))
    val written = file.replacements
    new ConsumerOffsets(file).clampTo(_ => 40L)
    assertEquals(file.replacements, written)
  }

  test("offsets that cannot be read are lost loudly, and the broker starts") {
    val offsets = new ConsumerOffsets(new MemoryFile(Some("{\"offsetTable\":")))
    assertEquals(offsets.get(key), None)
    offsets.commit(key, 1L)
    assertEquals(offsets.get(key), Some(1L))
  }

  test("groups and topics can be listed and removed") {
    val offsets = new ConsumerOffsets(new MemoryFile())
    offsets.commit(key, 1L)
    offsets.commit(OffsetKey("h", QueueKey("t", 0)), 1L)
    offsets.commit(OffsetKey("h", QueueKey("u", 0)), 1L)
    assertEquals(offsets.groupsOf("t"), Set("g", "h"))
    assertEquals(offsets.topicsOf("h"), Set("t", "u"))
    offsets.removeGroup("g")
    offsets.removeTopic("u")
    assertEquals((offsets.groupsOf("t"), offsets.topicsOf("h")), (Set("h"), Set("t")))
  }
}
