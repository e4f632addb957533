package rmqordered.store

import java.nio.MappedByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption.{READ, WRITE}
import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

class PageBudgetSuite extends munit.FunSuite {
  private val MiB = 1 << 20

  private def mapped(bytes: Int): (Path, MappedByteBuffer) = {
    val file = StoreFixture.temporaryFile()
    val channel = FileChannel.open(file, READ, WRITE)
    try (file, channel.map(FileChannel.MapMode.READ_WRITE, 0L, bytes.toLong))
    finally channel.close()
  }

  /** How much of a mapped file counts as memory of this process, in KiB. */
  private def residentKiB(file: Path): Int = {
    val lines = Files.readAllLines(Path.of("/proc/self/smaps")).asScala
    val own = lines.dropWhile(!_.endsWith(file.toString)).drop(1)
    own.find(_.startsWith("Rss:")).map(_.filter(_.isDigit).toInt).getOrElse(-1)
  }

  private def isLinux: Boolean = Files.exists(Path.of("/proc/self/smaps"))

  test("nothing is given back below the limit, everything in use above it") {
    val returned = mutable.Buffer.empty[MappedByteBuffer]
    val budget = new PageBudget(100L, mapping => { val _ = returned += mapping })
    val (first, second, idle) = (mapped(64)._2, mapped(64)._2, mapped(64)._2)
    val (one, two, _) = (budget.enter(first), budget.enter(second), budget.enter(idle))
    budget.used(one, 60L)
    budget.used(two, 40L)
    assertEquals(returned.size, 0)
    budget.used(one, 1L)
    assertEquals(
      returned.map(System.identityHashCode).toSet,
      Set(System.identityHashCode(first), System.identityHashCode(second))
    )
    returned.clear()
    budget.used(two, 101L)
    assertEquals(returned.map(System.identityHashCode).toSeq, Seq(System.identityHashCode(second)))
  }

  test("pages given back to the kernel leave the process, and their content stays") {
    assume(isLinux, "residency is read from /proc")
    val (file, mapping) = mapped(8 * MiB)
    (0 until 8 * MiB by 8).foreach(at => mapping.putLong(at, at.toLong))
    assertEquals(residentKiB(file), 8 * 1024)
    PageBudget.giveBackToKernel(mapping)
    assertEquals(residentKiB(file), 0)
    assert((0 until 8 * MiB by 8).forall(at => mapping.getLong(at) == at.toLong), "content changed")
  }

  test("a store that wrote and read far more than the limit keeps little of it mapped") {
    assume(isLinux, "residency is read from /proc")
    val fixture =
      new StoreFixture(StoreFixture.temporaryFolder(), Map("flushDiskType" -> "ASYNC_FLUSH"))
    fixture.use { opened =>
      opened.store.topics.put(StoreFixture.topic)
      val body = StoreFixture.content("x" * 100000)
      (0 until 500).foreach { _ =>
        opened.store.append(StoreFixture.envelope("orders", 0), Vector(body))(_ => ())
      }
      assertEquals(opened.store.maxOffset(rmqordered.model.QueueKey("orders", 0)), 500L)
      val log = fixture.folder.resolve("commitlog").resolve(MappedSegment.fileName(0L))
      assert(residentKiB(log) <= 17 * 1024, s"${residentKiB(log)} KiB of 50 MB are mapped")
    }
  }
}
