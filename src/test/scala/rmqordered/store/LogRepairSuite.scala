package rmqordered.store

import scala.util.Random

import rmqordered.Proves._
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.store.StoreFixture._

/** A damaged log that is given up on an operator's word: the rest is served, the loss is told. */
class LogRepairSuite extends munit.FunSuite {
  private val root = SimulatedRoot
  private val first = root.resolve("commitlog").resolve(MappedSegment.fileName(0L))

  private def open(disk: SimulatedDisk): MessageStore = onSimulatedDisk(disk)

  private def repair(disk: SimulatedDisk): Vector[LostRange] =
    new LogRepair(DataDirectory.open(root, disk), 70000).run()

  private def append(store: MessageStore, queueId: Int, body: String): Long = {
    var at = -1L
    store.append(envelope("orders", queueId), Vector(content(body))) {
      case AppendOutcome.Stored(_, offsets) => at = offsets.head
      case other => fail(s"not stored: $other")
    }
    store.flush()
    at
  }

  /** Acknowledged one by one, and then the power fails. */
  private def crashed(bodies: Seq[(Int, String)]): (SimulatedDisk, Seq[Long]) = {
    val disk = new SimulatedDisk(new Random(1L))
    val store = open(disk)
    val offsets = bodies.map { case (queueId, body) => append(store, queueId, body) }
    (disk, offsets)
  }

  private def read(store: MessageStore, queueId: Int, start: Long): ReadResult = {
    val all = ReadLimits(1000, 1 << 20, 1000)
    store.read(QueueKey("orders", queueId), ReadRequest(start, all, TagFilter.Everything))
  }

  private def bodies(result: ReadResult): Seq[String] =
    records(result).map(r => new String(r.content.body.toArray, "UTF-8"))

  test("what is damaged is kept aside, its offsets are lost, and the rest is served".proves(
    "damaged-log-repaired"
  )) {
    val sent = (0 until 20).map(i => (i % 2, s"message $i"))
    val (disk, offsets) = crashed(sent)
    disk.damage(first, offsets(10).toInt + 60)
    assert(intercept[StoreError](open(disk)).getMessage.contains("--repair"))
    val lost = repair(disk)
    assertEquals(lost.map(r => (r.from, r.to)), Vector((offsets(10), offsets(11))))
    assert(disk.files.contains(root.resolve("damaged").resolve(
      s"commitlog-${offsets(10)}-${offsets(11)}"
    )))
    assertEquals(repair(disk), Vector.empty)
    (0 until 2).foreach { _ =>
      val store = open(disk)
      assertEquals(bodies(read(store, 1, 0L)), sent.filter(_._1 == 1).map(_._2))
      val evens = sent.filter(_._1 == 0).map(_._2)
      assertEquals(bodies(read(store, 0, 0L)), evens.take(5))
      val gone = read(store, 0, 5L)
      assertEquals(gone.status, ReadStatus.OffsetTooSmall: ReadStatus)
      assertEquals((gone.nextOffset, gone.minOffset), (6L, 6L))
      assertEquals(bodies(read(store, 0, 6L)), evens.drop(6))
      (0 until 10).foreach(_ => store.scrub(100000))
      assertEquals(store.faults.damagedAppends, 0L)
      assertEquals(store.maxOffset(QueueKey("orders", 0)), 10L)
      store.close()
    }
  }

  test("nobody else gets the offsets of a queue's last messages that are lost".proves(
    "damaged-log-repaired"
  )) {
    val (disk, offsets) = crashed(Seq((0, "a"), (0, "b"), (0, "c"), (1, "d"), (1, "e")))
    disk.damage(first, offsets(1).toInt + 60)
    disk.damage(first, offsets(2).toInt + 60)
    assertEquals(repair(disk).map(_.from).take(1), Vector(offsets(1)))
    val store = open(disk)
    assertEquals(store.maxOffset(QueueKey("orders", 0)), 3L)
    val _ = append(store, 0, "f")
    assertEquals(read(store, 0, 1L).nextOffset, 3L)
    assertEquals(bodies(read(store, 0, 3L)), Seq("f"))
    assertEquals(bodies(read(store, 1, 0L)), Seq("d", "e"))
  }

  test("a missing file, and damage below the checkpoint, are given up as well".proves(
    "damaged-log-repaired"
  )) {
    val sent = (0 until 60).map(i => (0, s"$i " + "x" * 3000))
    val (disk, offsets) = crashed(sent)
    open(disk).close()
    disk.damage(first, offsets(3).toInt + 60)
    disk.delete(root.resolve("commitlog").resolve(MappedSegment.fileName(70000L)))
    assert(repair(disk).nonEmpty)
    val store = open(disk)
    val rest = Iterator.unfold(0L) { at =>
      Option.when(at < store.maxOffset(QueueKey("orders", 0))) {
        val result = read(store, 0, at)
        (bodies(result), result.nextOffset)
      }
    }.flatten.toVector
    val gone = offsets.zipWithIndex.collect {
      case (at, i) if i == 3 || (at >= 70000L && at < 140000L) => i
    }.toSet
    assertEquals(rest, sent.indices.filterNot(gone).map(sent(_)._2).toVector)
    assertEquals(store.maxOffset(QueueKey("orders", 0)), 60L)
  }

  test("a torn end is left to recovery, and a good log as it is") {
    val (disk, offsets) = crashed((0 until 5).map(i => (0, s"$i")))
    assertEquals(repair(disk), Vector.empty)
    disk.damage(first, offsets(4).toInt + 60)
    assertEquals(repair(disk), Vector.empty)
    assertEquals(bodies(read(open(disk), 0, 0L)), Seq("0", "1", "2", "3"))
  }
}
