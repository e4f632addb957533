package rmqordered.store

import java.nio.file.Path

import scala.util.Random

import rmqordered.Proves._
import rmqordered.protocol.{PropertyMarks, Slice}
import rmqordered.util.{ManualClock, WorkBudget, WorkTurn, WorkTurns}

class KeyIndexSuite extends munit.FunSuite {
  private val shape = IndexShape(slots = 4, entries = 10)

  private def made(): (KeyIndex, java.nio.file.Path) = {
    val folder = StoreFixture.temporaryFolder().resolve("index")
    (new KeyIndex(DiskFiles, folder, shape), folder)
  }

  private def find(index: KeyIndex, hash: Int, limit: Int = 100): Seq[Long] = {
    val found = Seq.newBuilder[Long]
    var count = 0
    index.lookUp(new KeyCursor(hash), WorkTurn.endless()) { offset =>
      found += offset
      count += 1
      count < limit
    }
    found.result()
  }

  private def fill(index: KeyIndex, offsets: Range): Unit = offsets.foreach { i =>
    index.ensureRoom(1, i.toLong)
    index.add(Array(i % 3), i.toLong)
  }

  test("entries come back newest first, over many files, and a lookup can stop") {
    val (index, folder) = made()
    fill(index, 0 until 35)
    assertEquals(find(index, 1), (0 until 35).filter(_ % 3 == 1).reverse.map(_.toLong))
    assertEquals(find(index, 1, limit = 2), Seq(34L, 31L))
    assertEquals(find(index, 99), Nil)
    assertEquals(MappedSegment.list(DiskFiles, folder).length, 4)
  }

  test(
    "the next file is claimed when half of one is used, and a full disk is noticed before that"
  ) {
    val folder = StoreFixture.temporaryFolder().resolve("index")
    val disk = new LimitedDisk
    val index = new KeyIndex(disk, folder, shape)
    val ahead = new ClaimAhead(Seq(index), background = false)
    fill(index, 0 until 5)
    assert(!index.isShort)
    fill(index, 5 until 6)
    disk.isFull = true
    ahead.appended()
    assert(index.isShort)
    assert(!disk.exists(IndexFile.spareIn(folder)), "a claim that failed keeps no space")
    disk.isFull = false
    ahead.appended()
    assert(!index.isShort)
    // Into the second file, which needs no more space, up to the third, which does.
    disk.isFull = true
    fill(index, 6 until 20)
    intercept[java.io.IOException](fill(index, 20 until 21))
    disk.isFull = false
    fill(index, 20 until 21)
    assertEquals(find(index, 1), (0 until 21).filter(_ % 3 == 1).reverse.map(_.toLong))
    assertEquals(MappedSegment.list(DiskFiles, folder), Vector(0L, 10L, 20L))
  }

  test("a file that fills while it is flushed is flushed again before a checkpoint relies on it") {
    val folder = Path.of("/simulated/index")
    val disk = new SimulatedDisk(new Random(1))
    val index = new KeyIndex(disk, folder, shape)
    fill(index, 0 until 6)
    var isLate = true
    disk.onForce = () =>
      if (isLate) {
        isLate = false
        fill(index, 6 until 12)
      }
    index.flush()
    assert(!isLate, "nothing was forced")
    val position = index.position
    index.flush()
    disk.crash()
    val again = new KeyIndex(disk, folder, shape)
    assertEquals(again.resume(position, 12L), None)
    assertEquals(find(again, 0), Seq(9L, 6L, 3L, 0L))
    assertEquals(find(again, 1), Seq(10L, 7L, 4L, 1L))
  }

  test("a file claimed and not used is forgotten by the next start") {
    val (index, folder) = made()
    fill(index, 0 until 6)
    index.claimAhead()
    assertEquals(DiskFiles.list(folder).toSet, Set("spare", MappedSegment.fileName(0L)))
    assertEquals(new KeyIndex(DiskFiles, folder, shape).resume(index.position, 6L), None)
    assertEquals(DiskFiles.list(folder), Seq(MappedSegment.fileName(0L)))
  }

  test("one append may need several files") {
    val (index, _) = made()
    index.ensureRoom(25, 7L)
    index.add(Array.fill(25)(5), 7L)
    assertEquals(find(index, 5).length, 25)
    fill(index, 100 until 105)
    assertEquals(index.position.map(_.entries), Some(10))
  }

  test("after a crash it goes on from a position, without what came later") {
    val (index, folder) = made()
    fill(index, 0 until 24)
    val position = index.position
    fill(index, 24 until 47)
    val again = new KeyIndex(DiskFiles, folder, shape)
    assertEquals(again.resume(position, 24L), None)
    assertEquals(find(again, 0), (0 until 24).filter(_ % 3 == 0).reverse.map(_.toLong))
    fill(again, 24 until 30)
    assertEquals(find(again, 0), (0 until 30).filter(_ % 3 == 0).reverse.map(_.toLong))
  }

  test("a position that does not fit the files is refused with a reason") {
    val (index, folder) = made()
    fill(index, 0 until 24)
    def problem(position: IndexPosition, logOffset: Long) =
      new KeyIndex(DiskFiles, folder, shape).resume(Some(position), logOffset)
    assert(problem(IndexPosition(20L, 4), 20L).exists(_.contains("ends at 23")))
    assert(problem(IndexPosition(20L, 11), 24L).isDefined)
    assert(problem(IndexPosition(21L, 1), 24L).exists(_.contains("missing")))
    assertEquals(new KeyIndex(DiskFiles, folder, shape).resume(None, 24L), None)
    assertEquals(MappedSegment.list(DiskFiles, folder), Vector.empty)
  }

  test("files that hold only retired messages are given up") {
    val (index, _) = made()
    fill(index, 0 until 35)
    assertEquals(index.retire(19L).length, 1)
    assertEquals(index.retire(20L).length, 1)
    assertEquals(index.retire(1000L).length, 1)
    assertEquals(find(index, 0), Seq(33L, 30L))
  }

  test("keys are read from encoded properties wherever they stand") {
    val topic = "t".getBytes
    def marks(text: String) = PropertyMarks.of(Slice(text.getBytes("UTF-8")))
    val both = marks("A\u0001b\u0002KEYS\u0001k1  k2\u0002XKEYS\u0001no\u0002UNIQ_KEY\u0001u")
    assertEquals(
      MessageKeys.hashes(topic, both).toSeq,
      Seq("k1", "k2", "u").map(key => MessageKeys.hash(topic, key.getBytes))
    )
    assert(MessageKeys.contains(both, KeyKind.Chosen, "k2".getBytes))
    assert(!MessageKeys.contains(both, KeyKind.Chosen, "u".getBytes))
    assert(MessageKeys.contains(both, KeyKind.Unique, "u".getBytes))
    assert(!MessageKeys.contains(both, KeyKind.Chosen, "no".getBytes))
    assertEquals(MessageKeys.hashes(topic, marks("")).toSeq, Nil)
    assertEquals(
      MessageKeys.hashes(topic, marks("KEYS\u0001\u0002UNIQ_KEY\u0001\u0002KEYS")).toSeq,
      Nil
    )
    val many = marks("KEYS\u0001" + (0 until 1000).mkString(" ") + "\u0002")
    assertEquals(MessageKeys.hashes(topic, many).length, 64)
  }

  test("a search that goes on in turns finds what one without turns finds".proves("fair-turns")) {
    val random = new Random(11)
    val (index, _) = made()
    (1 to 35).foreach { i =>
      index.ensureRoom(1, i * 100L)
      index.add(Array(random.nextInt(9)), i * 100L)
    }
    val turns = new WorkTurns(new ManualClock(), WorkBudget(5, records = 3, bytes = 1000))
    (0 until 9).foreach { hash =>
      val cursor = new KeyCursor(hash)
      val found = Seq.newBuilder[Long]
      var isAtEnd = false
      var rounds = 0
      while (!isAtEnd) {
        val turn = turns.begin()
        isAtEnd = index.lookUp(cursor, turn) { offset =>
          found += offset
          true
        }
        rounds += 1
        assert(turn.records <= 3, "entries of other keys count as well")
      }
      assertEquals(found.result(), find(index, hash))
      assert(rounds > 1)
    }
  }
}
