package rmqordered.store

import scala.util.Random

import rmqordered.Proves._
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.protocol.StoredRecord
import rmqordered.store.StoreFixture._

/** Bytes of the log that change while nobody reads them: their messages are never served. */
class SealCheckSuite extends munit.FunSuite {
  private val key = QueueKey("orders", 0)
  private val sent = (0 until 20).map(i => s"message $i")

  private val root = SimulatedRoot

  private def open(disk: SimulatedDisk): MessageStore =
    onSimulatedDisk(disk, small + ("flushDiskType" -> "ASYNC_FLUSH"))

  private def use[T](disk: SimulatedDisk)(body: MessageStore => T): T = {
    val store = open(disk)
    try body(store)
    finally store.close()
  }

  /** A disk with twenty appends of two messages each after a clean stop; where these are. */
  private def filled(): (SimulatedDisk, Seq[Long]) = {
    val disk = new SimulatedDisk(new Random(1L))
    val offsets = use(disk) { store =>
      sent.map { body =>
        var at = -1L
        val contents = Vector(content(body), content(s"$body too"))
        store.append(envelope("orders", 0), contents) {
          case AppendOutcome.Stored(_, offsets) => at = offsets.head
          case other => fail(s"not stored: $other")
        }
        at
      }
    }
    (disk, offsets)
  }

  private val file = root.resolve("commitlog").resolve(MappedSegment.fileName(0L))
  private val offsets = filled()._2

  private def flipped(at: Long): SimulatedDisk = {
    val (disk, _) = filled()
    disk.damage(file, at.toInt)
    disk
  }

  private def read(store: MessageStore, start: Long): Seq[String] = {
    val all = ReadRequest(start, ReadLimits(1000, 1 << 20, 1000), TagFilter.Everything)
    records(store.read(key, all)).map(r => new String(r.content.body.toArray, "UTF-8"))
  }

  private val expected = sent.flatMap(body => Seq(body, s"$body too"))

  test("a bit that is flipped anywhere in an append keeps all of it from readers".proves(
    "flipped-bit-never-served"
  )) {
    val start = offsets(10)
    val end = offsets(11)
    (start until end by 9).foreach { at =>
      use(flipped(at)) { store =>
        assertEquals(read(store, 0L), expected.take(20), s"byte $at")
        Seq(20L, 21L).foreach { lost =>
          // Where the size of a record or its place is what changed, its unit does not fit either.
          val problem = intercept[java.io.IOException](read(store, lost)).getMessage
          assert(problem.contains("orders"), problem)
        }
        assertEquals(read(store, 22L), expected.drop(22), s"byte $at")
        assertEquals(store.faults.damagedAppends, 1L, s"byte $at")
        assertEquals(store.messageAt(start), None)
        assertEquals(read(store, 0L), expected.take(20))
        assertEquals(store.faults.damagedAppends, 1L)
      }
    }
  }

  test("the error names the message, also for whoever asks for that one".proves(
    "flipped-bit-never-served"
  )) {
    // The queue id, which no checksum of RocketMQ covers, belongs to the unit; the time does not.
    use(flipped(offsets(10) + StoredRecord.SysFlagAt + 5)) { store =>
      val problem = intercept[LostMessage](read(store, 20L)).getMessage
      assert(problem.contains("message 20 of") && problem.contains("damaged"), problem)
      val _ = intercept[LostMessage](store.record(key, 21L))
      // It does not become readable by a rebuild of the queue, nor is the queue touched.
      store.rebuildQueues()
      assertEquals(store.faults.rebuiltUnits, 0L)
      val _ = intercept[LostMessage](read(store, 20L))
    }
  }

  test("the scrub finds what nobody reads, round after round, a little at a time".proves(
    "flipped-bit-never-served"
  )) {
    use(flipped(offsets(15) + 70)) { store =>
      store.scrub(1)
      assertEquals(store.scrubbedTo, offsets(1))
      assertEquals(store.faults.damagedAppends, 0L)
      (0 until 100).foreach(_ => store.scrub(200))
      assertEquals(store.faults.damagedAppends, 1L)
    }
  }

  test("what rots after it was read is found by the scrub and served no more".proves(
    "flipped-bit-never-served"
  )) {
    val (disk, _) = filled()
    use(disk) { store =>
      assertEquals(read(store, 0L), expected)
      disk.damage(file, offsets(3).toInt + 75)
      (0 until 100).foreach(_ => store.scrub(1000))
      assertEquals(store.faults.damagedAppends, 1L)
      assertEquals(read(store, 0L), expected.take(6))
      val _ = intercept[LostMessage](read(store, 6L))
    }
  }

  test("a log of many files is scrubbed whole, and goes on being read and written") {
    use(new SimulatedDisk(new Random(1L))) { store =>
      val bodies = (0 until 60).map { i =>
        val body = s"$i " + "x" * 3000
        store.append(envelope("orders", 0), Vector(content(body)))(_ => ())
        store.scrub(2000)
        body
      }
      assertEquals(read(store, 0L), bodies)
      (0 until 100).foreach(_ => store.scrub(10000))
      assertEquals(store.faults.damagedAppends, 0L)
    }
  }
}
