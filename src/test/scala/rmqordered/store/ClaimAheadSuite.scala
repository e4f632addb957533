package rmqordered.store

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

import rmqordered.store.StoreFixture._
import rmqordered.util.Eventually

/** Disk space is claimed before appends need it, and claims never touch what was appended. */
class ClaimAheadSuite extends munit.FunSuite {
  private val SegmentBytes = 8 * CommitLog.AllocationStepBytes
  private val tenth = content("x" * (CommitLog.AllocationStepBytes / 10))

  private def emptyLog(files: FileLayer): CommitLog =
    new CommitLog(
      files,
      temporaryFolder(),
      SegmentBytes,
      RecoveredLog(Vector.empty, 0, 0L, 0L),
      0L,
      7
    )

  private def append(log: CommitLog, number: Int): Long =
    log.append(envelope("orders", 0), Vector(tenth), number.toLong, 1L).offsets.head

  test("with space claimed after each append, a full file's worth of appends claims none itself") {
    val disk = new LimitedDisk
    val log = emptyLog(disk)
    val ahead = new ClaimAhead(Seq(log), background = false)
    append(log, 0)
    ahead.appended()
    (1 to 70).foreach { i =>
      // An append that had to claim space now would fail.
      disk.isFull = true
      append(log, i)
      disk.isFull = false
      ahead.appended()
    }
    assert(log.maxOffset > 7 * CommitLog.AllocationStepBytes, s"${log.maxOffset}")
  }

  test("a log that holds little claims little ahead") {
    val log = emptyLog(DiskFiles)
    val ahead = new ClaimAhead(Seq(log), background = false)
    append(log, 0)
    ahead.appended()
    assertEquals(log.segmentAt(0L).map(_.allocatedTo), Some(2 * CommitLog.AllocationStepBytes))
  }

  test("space that cannot be claimed ahead is the next append's failure, and nothing's before") {
    val disk = new LimitedDisk
    val log = emptyLog(disk)
    val ahead = new ClaimAhead(Seq(log), background = false)
    append(log, 0)
    disk.isFull = true
    ahead.appended()
    (1 to 8).foreach { i =>
      append(log, i)
      ahead.appended()
    }
    val end = log.maxOffset
    intercept[IOException] { val _ = append(log, 9) }
    assertEquals(log.maxOffset, end)
    disk.isFull = false
    append(log, 9)
    assert(log.maxOffset > end)
  }

  test("claims by another thread leave alone what is appended meanwhile") {
    val log = emptyLog(DiskFiles)
    val isDone = new AtomicBoolean()
    val claimer = new Thread(() => while (!isDone.get()) log.claimAhead())
    claimer.start()
    val offsets =
      try (0 until 200).map(append(log, _))
      finally {
        isDone.set(true)
        claimer.join()
      }
    offsets.zipWithIndex.foreach { case (offset, i) =>
      val segment = log.segmentAt(offset).getOrElse(fail(s"no segment at $offset"))
      val found = LogRecords.at(segment, (offset - segment.baseOffset).toInt, offset)
      assertEquals(found.map(_.position.queueOffset), Some(i.toLong))
      assertEquals(found.map(_.content.body.toArray.toSeq), Some(tenth.body.toArray.toSeq))
    }
  }

  test("a thread of its own claims, and whoever appends goes on") {
    val log = emptyLog(DiskFiles)
    val ahead = new ClaimAhead(Seq(log), background = true)
    try {
      append(log, 0)
      ahead.appended()
      Eventually {
        log.segmentAt(0L).exists(_.allocatedTo == 2 * CommitLog.AllocationStepBytes)
      }
    } finally ahead.close()
  }

  test("a claim that fails in whatever way costs the others nothing") {
    var claims = 0
    val broken = new Growing {
      override def isShort: Boolean = true
      override def claimAhead(): Unit = throw new StackOverflowError("too deep")
    }
    val good = new Growing {
      override def isShort: Boolean = false
      override def claimAhead(): Unit = claims += 1
    }
    new ClaimAhead(Seq(broken, good), background = false).appended()
    assertEquals(claims, 1)
  }
}
