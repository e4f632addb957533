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
    val file = new MemoryFile(Some("{}"))
    val offsets = new ConsumerOffsets(file)
    offsets.commit(key, 1L)
    offsets.flushFenced()
    assertEquals(file.replacements, 0)
    offsets.commitForward(key, 2L)
    offsets.flushFenced()
    assertEquals(file.replacements, 1)
  }

  test("nothing is written when nothing changed, and a failed write is tried again") {
    val file = new MemoryFile(Some("{}"))
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

  private val loss = OffsetLoss(Some(Set("g", "h")), Set("t"))

  private def found(file: MemoryFile): ConsumerOffsets =
    new ConsumerOffsets(file, isFirstStart = false, everything = loss)

  private def ensureLost(offsets: ConsumerOffsets, key: OffsetKey): Unit = {
    val problem = intercept[OffsetsLost](offsets.get(key)).getMessage
    assert(problem.contains("resetOffsetByTime -g") && problem.contains("write {}"), problem)
  }

  test("the file is there from the first start on, so that a missing one is a loss".proves(
    "lost-offsets-told"
  )) {
    val file = new MemoryFile()
    new ConsumerOffsets(file).clampTo(_ => 0L)
    assertEquals(file.text, """{"offsetTable":{}}""")
    assertEquals(found(file).get(key), None)
  }

  test("offsets that are missing or damaged are lost loudly, also after another start".proves(
    "lost-offsets-told"
  )) {
    Seq(None, Some("{\"offsetTable\":")).foreach { content =>
      val file = new MemoryFile(content)
      val offsets = found(file)
      offsets.clampTo(_ => 0L)
      assert(offsets.isLost)
      ensureLost(offsets, key)
      offsets.commit(key, 1L)
      assertEquals(offsets.get(key), Some(1L))
      offsets.flush()
      val again = found(file)
      assert(again.isLost)
      assertEquals(again.get(key), Some(1L))
      ensureLost(again, OffsetKey("g", QueueKey("t", 4)))
    }
  }

  test("what is newer than a loss begins as it would without one".proves("lost-offsets-told")) {
    val offsets = found(new MemoryFile())
    assertEquals(offsets.get(OffsetKey("new", QueueKey("t", 0))), None)
    assertEquals(offsets.get(OffsetKey("g", QueueKey("new", 0))), None)
    offsets.reset(key, 7L)
    assertEquals(offsets.get(key), Some(7L))
    offsets.removeGroup("g")
    assertEquals(offsets.get(key), None)
    ensureLost(offsets, OffsetKey("h", QueueKey("t", 0)))
    offsets.removeTopic("t")
    assert(!offsets.isLost)
  }

  test("of a missing file the previous version is used, unless it is the first one".proves(
    "lost-offsets-told"
  )) {
    val kept = """{"offsetTable":{"t@g":{"3":42}}}"""
    assertEquals(found(new MemoryFile(None, Some(kept))).get(key), Some(42L))
    ensureLost(found(new MemoryFile(None, Some("""{"offsetTable":{}}"""))), key)
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
