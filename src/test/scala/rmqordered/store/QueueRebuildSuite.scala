package rmqordered.store

import java.nio.ByteBuffer
import java.nio.file.{Files, StandardOpenOption}

import scala.util.Random

import rmqordered.Proves._
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.store.StoreFixture._

/** Consume queues with garbage in the middle: what the log has comes back. */
class QueueRebuildSuite extends munit.FunSuite {
  private val key = QueueKey("orders", 0)
  private val sent = (0 until 60).map(i => s"message $i")

  /** A clean stop with two queues that take turns, and a topic made anew. */
  private lazy val stopped: StoreFixture = {
    val fixture = new StoreFixture(temporaryFolder(), small + ("flushDiskType" -> "ASYNC_FLUSH"))
    fixture.use { opened =>
      opened.store.topics.put(topic)
      sent.foreach(body => opened.append("orders", 0, s"old $body"))
      opened.store.deleteTopic("orders")
      opened.store.topics.put(topic)
      sent.foreach { body =>
        opened.append("orders", 0, body)
        opened.append("orders", 1, body)
      }
    }
    fixture
  }

  private def filled(): StoreFixture = stopped.copy()

  /** Overwrites units of queue 0, at most those of one file. */
  private def spoil(fixture: StoreFixture, units: Range, garbage: Int => Array[Byte]): Unit =
    units.foreach { unit =>
      val perFile = 200 / ConsumeQueue.UnitBytes
      val file = fixture.folder.resolve("consumequeue/orders/0")
        .resolve(MappedSegment.fileName(unit.toLong / perFile * 200))
      val channel = Files.newByteChannel(file, StandardOpenOption.WRITE)
      try {
        channel.position(unit.toLong % perFile * ConsumeQueue.UnitBytes)
        val _ = channel.write(ByteBuffer.wrap(garbage(unit)))
      } finally channel.close()
    }

  private def random(seed: Long): Int => Array[Byte] = {
    val random = new Random(seed)
    _ => random.nextBytes(ConsumeQueue.UnitBytes)
  }

  private def read(opened: StoreFixture#Opened, start: Long, filter: TagFilter): ReadResult =
    opened.store.read(key, ReadRequest(start, ReadLimits(1000, 1 << 20, 1000), filter))

  private def ensureRebuilt(fixture: StoreFixture, units: Int): Unit = fixture.use { opened =>
    val problem = intercept[DamagedQueue](read(opened, 20L, TagFilter.Everything)).getMessage
    assert(problem.contains("orders") && problem.contains("being rebuilt"), problem)
    opened.store.rebuildQueues()
    assertEquals(opened.bodies("orders", 0), sent)
    assertEquals(opened.bodies("orders", 1), sent)
    assertEquals(opened.store.faults.rebuiltUnits, units.toLong)
    assertEquals(opened.store.faults.damagedQueues, Vector.empty)
  }

  test("garbage in the middle of a queue is rebuilt from the log on the first read".proves(
    "damaged-queue-rebuilt"
  )) {
    (1L to 8L).foreach { seed =>
      val fixture = filled()
      spoil(fixture, 20 until 50, random(seed))
      ensureRebuilt(fixture, 30)
      // On disk, too.
      assertEquals(fixture.use(_.bodies("orders", 0)), sent)
    }
  }

  test("zeroes, and units of other messages, are rebuilt as well".proves(
    "damaged-queue-rebuilt"
  )) {
    val zeroed = filled()
    spoil(zeroed, 1 until 59, _ => new Array[Byte](ConsumeQueue.UnitBytes))
    ensureRebuilt(zeroed, 58)
    val moved = filled()
    val units = Files.readAllBytes(
      moved.folder.resolve("consumequeue/orders/1").resolve(MappedSegment.fileName(400L))
    )
    spoil(moved, 20 until 30, unit => units.slice((unit - 20) * 20, (unit - 19) * 20))
    // Messages of the other queue, with the same offsets.
    ensureRebuilt(moved, 10)
  }

  test("garbage that points nowhere does not make the queue begin behind it".proves(
    "damaged-queue-rebuilt"
  )) {
    val fixture = filled()
    spoil(fixture, 20 until 50, _ => Array.fill(ConsumeQueue.UnitBytes)(0xff.toByte))
    fixture.use(opened => assertEquals(opened.store.minOffset(key), 0L))
  }

  test("a filter does not pass over garbage without a word".proves("damaged-queue-rebuilt")) {
    val fixture = filled()
    spoil(fixture, 20 until 50, random(3L))
    fixture.use { opened =>
      val filter = TagFilter.parse("nothing")
      val _ = intercept[DamagedQueue](read(opened, read(opened, 0L, filter).nextOffset, filter))
      opened.store.rebuildQueues()
      assertEquals(read(opened, 0L, filter).nextOffset, 60L)
    }
  }

  test("single messages and times are looked up in no damaged queue".proves(
    "damaged-queue-rebuilt"
  )) {
    val fixture = filled()
    spoil(fixture, 20 until 50, random(4L))
    fixture.use { opened =>
      val _ = intercept[DamagedQueue](opened.store.record(key, 30L))
      val _ = intercept[DamagedQueue](opened.store.offsetByTime(key, 1L, TimeBoundary.Lower))
      opened.store.rebuildQueues()
      assertEquals(opened.store.record(key, 30L).map(_.position.queueOffset), Some(30L))
      assertEquals(opened.store.offsetByTime(key, 0L, TimeBoundary.Lower), 0L)
    }
  }
}
