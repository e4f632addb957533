package rmqordered.store

import java.nio.file.Path

import scala.collection.mutable
import scala.util.Random

/** A log of records on disks that lose power, damage bytes or have no room. */
class RecordFileSuite extends munit.FunSuite {
  private val path = Path.of("/data/runs.log")

  /** Tasks that run when the test says so. */
  private final class Turns extends java.util.concurrent.Executor {
    private val tasks = mutable.Queue.empty[Runnable]
    override def execute(task: Runnable): Unit = tasks += task
    def run(): Unit = while (tasks.nonEmpty) tasks.dequeue().run()
  }

  private def texts(file: RecordFile): Seq[String] = file.recovered.map(new String(_))

  private def newDisk(seed: Int = 1): SimulatedDisk = {
    val disk = new SimulatedDisk(new Random(seed), sectorBytes = 64)
    disk.createFolder(path.getParent)
    disk
  }

  test("what gathers while the disk works is forced together") {
    val disk = newDisk()
    var forces = 0
    val turns = new Turns
    val file = new RecordFile(path, turns, disk)
    var done = 0
    file.append("first".getBytes)(_ => done += 1)
    file.replaceWith(() => Seq("first".getBytes))
    turns.run()
    disk.onForce = () => forces += 1
    (1 to 100).foreach(n => file.append(s"record $n".getBytes)(_ => done += 1))
    assertEquals(done, 1, "acknowledged before the disk has it")
    turns.run()
    assertEquals((done, forces), (101, 1))
    val again = texts(new RecordFile(path, turns, disk))
    assertEquals(again, "first" +: (1 to 100).map(n => s"record $n"))
  }

  /** Appends until the power fails; gives what was acknowledged, and what was appended. */
  private def live(disk: SimulatedDisk, random: Random, known: Vector[String])
      : (Vector[String], Vector[String]) = {
    val all = mutable.ArrayBuffer.from(known)
    val acknowledged = mutable.ArrayBuffer.from(known)
    val turns = new Turns
    try {
      val file = new RecordFile(path, turns, disk, leastBytes = 600)
      assertEquals(texts(file).toVector, known)
      file.replaceWith(() => all.toVector.map(_.getBytes))
      disk.failAt(random.nextInt(60))
      while (!disk.hasFailed) {
        (0 to random.nextInt(4)).foreach { _ =>
          val record = s"${all.length}:" + "x" * random.nextInt(90)
          all += record
          file.append(record.getBytes)(failure => if (failure.isEmpty) acknowledged += record)
        }
        if (random.nextBoolean()) disk.writeBackSome()
        turns.run()
      }
    } catch { case _: PowerFailure => () }
    (acknowledged.toVector, all.toVector)
  }

  test("no power failure loses an acknowledged record, doubles one or ends in a refusal") {
    var lives, cuts = 0
    (1 to 25).foreach { seed =>
      val random = new Random(seed)
      val disk = newDisk(seed)
      var known = Vector.empty[String]
      (1 to 4).foreach { _ =>
        val (acknowledged, all) = live(disk, random, known)
        disk.crash()
        val found = texts(new RecordFile(path, new Turns, disk)).toVector
        assert(found.startsWith(acknowledged), s"seed $seed: ${acknowledged.length} acknowledged")
        assert(all.startsWith(found), s"seed $seed: something else than what was appended")
        if (found.length < all.length) cuts += 1
        known = found
        lives += 1
      }
    }
    assertEquals(lives, 100)
    assert(cuts > 15, s"only $cuts torn ends")
  }

  test("damage before what was forced stops the start, naming file and byte") {
    val disk = newDisk()
    val turns = new Turns
    val file = new RecordFile(path, turns, disk)
    var kept = Vector.empty[Array[Byte]]
    file.replaceWith(() => kept)
    (1 to 3).foreach { n =>
      val record = s"record $n".getBytes
      kept = kept :+ record
      file.append(record)(_ => ())
      turns.run()
    }
    val size = "record 1".length + 16
    disk.damage(path, size + 14)
    val error = intercept[StoreError](new RecordFile(path, turns, disk))
    assert(error.getMessage.contains(s"$path is damaged at byte $size"), error.getMessage)
  }

  test(
    "a write that failed is told, and the file is written anew before the next is acknowledged"
  ) {
    val folder = StoreFixture.temporaryFolder()
    val disk = new LimitedDisk
    val turns = new Turns
    val file = new RecordFile(folder.resolve("runs.log"), turns, disk, leastBytes = 16)
    var table = Vector.empty[Array[Byte]]
    file.replaceWith(() => table)
    var outcomes = Vector.empty[Boolean]
    def append(text: String): Unit = {
      table = table :+ text.getBytes
      file.append(text.getBytes)(failure => outcomes = outcomes :+ failure.isEmpty)
      turns.run()
    }
    disk.isFull = true
    append("one")
    disk.isFull = false
    append("two")
    // Its blocks are claimed: it takes records on a full disk.
    disk.isFull = true
    append("three")
    assertEquals(outcomes, Vector(false, true, true))
    val again = new RecordFile(folder.resolve("runs.log"), turns)
    assertEquals(texts(again), Seq("one", "two", "three"))
  }
}
