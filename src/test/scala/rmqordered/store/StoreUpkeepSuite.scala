package rmqordered.store

import java.io.IOException
import java.nio.file.Path

import rmqordered.Proves._
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.store.StoreFixture._

/** Retention, and a disk that is full. */
class StoreUpkeepSuite extends munit.FunSuite {
  private val key = QueueKey("orders", 0)
  private val hour = 3600000L

  private def filled(settings: (String, String)*): StoreFixture = {
    val fixture = new StoreFixture(temporaryFolder(), small ++ settings)
    fixture.use(_.store.topics.put(topic))
    fixture
  }

  // About 22 of these fill a file.
  private def append(opened: StoreFixture#Opened, from: Int, until: Int, queueId: Int = 0): Unit =
    (from until until).foreach(i => opened.append("orders", queueId, s"$i " + "x" * 3000))

  private def read(opened: StoreFixture#Opened, start: Long): ReadResult =
    opened.store.read(key, ReadRequest(start, ReadLimits(32, 1 << 20, 800), TagFilter.Everything))

  private def logFiles(fixture: StoreFixture): Vector[Long] =
    MappedSegment.list(DiskFiles, fixture.folder.resolve("commitlog"))

  test("files whose messages are all too old go, the one being written never".proves("retention")) {
    val fixture = filled("fileReservedTime" -> "2")
    fixture.use { opened =>
      append(opened, 0, 50)
      fixture.clock.advance(hour)
      append(opened, 50, 100)
      assertEquals(opened.store.retire(), 0)
      fixture.clock.advance(hour + 1)
      assertEquals(opened.store.retire(), 2)
      assertEquals(logFiles(fixture), Vector(140000L, 210000L, 280000L))
      fixture.clock.advance(100 * hour)
      assertEquals(opened.store.retire(), 2)
      assertEquals(opened.store.retire(), 0)
      assertEquals(logFiles(fixture), Vector(280000L))
    }
  }

  test("the queue's minimum follows, and a pull below it is told so".proves("retention")) {
    val fixture = filled("fileReservedTime" -> "1")
    fixture.use { opened =>
      append(opened, 0, 50)
      opened.append("orders", 1, "another queue")
      fixture.clock.advance(2 * hour)
      append(opened, 50, 52)
      assert(opened.store.retire() > 0)
      val min = opened.store.minOffset(key)
      assert(min > 0 && min < 50, s"minimum $min")
      assertEquals(
        (read(opened, 0).status, read(opened, 0).nextOffset),
        (ReadStatus.OffsetTooSmall, min)
      )
      assertEquals(records(read(opened, min)).head.position.queueOffset, min)
      assertEquals(opened.store.storeTimestamp(key, min - 1), None)
      assertEquals(opened.store.offsetByTime(key, 0L, TimeBoundary.Lower), min)
      assertEquals(opened.store.offsetByTime(key, Long.MaxValue, TimeBoundary.Lower), 52L)
      assertEquals(opened.store.offsetByTime(key, 0L, TimeBoundary.Upper), min)
    }
    val min = fixture.use(_.store.minOffset(key))
    fixture.use { opened =>
      assertEquals(opened.store.scannedRecords, 0L)
      assertEquals(records(read(opened, min)).map(_.position.queueOffset).head, min)
    }
  }

  test("a queue that lost all its messages goes on where it was, after any kind of start".proves(
    "retention"
  )) {
    val fixture = filled("fileReservedTime" -> "1")
    fixture.use { opened =>
      opened.append("orders", 3, "a", "b", "c")
      append(opened, 0, 60)
      fixture.clock.advance(2 * hour)
      append(opened, 60, 61)
      assert(opened.store.retire() > 0)
      assertEquals(opened.store.minOffset(QueueKey("orders", 3)), 3L)
    }
    fixture.use(opened => assertEquals(opened.store.maxOffset(QueueKey("orders", 3)), 3L))
    DiskFiles.deleteTree(fixture.folder.resolve("consumequeue"))
    fixture.use { opened =>
      assert(opened.store.scannedRecords > 0, "the queues were not made anew")
      assertEquals(opened.store.maxOffset(QueueKey("orders", 3)), 3L)
      opened.append("orders", 3, "d") match {
        case AppendOutcome.Stored(queueOffset, _) => assertEquals(queueOffset, 3L)
        case other => fail(s"not stored: $other")
      }
      assertEquals(opened.store.maxOffset(key), 61L)
    }
    fixture.use(opened => assertEquals(opened.store.minOffset(QueueKey("orders", 3)), 3L))
  }

  test("more than the allowed size goes, oldest first, however young".proves("retention")) {
    val fixture = filled("maxCommitLogBytes" -> "200000")
    fixture.use { opened =>
      append(opened, 0, 110)
      assertEquals(opened.store.retire(), 3)
      assertEquals(logFiles(fixture), Vector(210000L, 280000L))
      assertEquals(opened.store.maxOffset(key), 110L)
    }
  }

  test("an answer that is still being sent is not disturbed when its file is deleted".proves(
    "retention"
  )) {
    val fixture = filled("maxCommitLogBytes" -> "70000")
    fixture.use { opened =>
      append(opened, 0, 60)
      val answer = read(opened, 0)
      assert(opened.store.retire() > 0)
      assertEquals(records(answer).map(_.position.queueOffset), (0L until 32L))
    }
  }

  test("index and queue files go with the messages they point at".proves("retention")) {
    val fixture = filled("maxCommitLogBytes" -> "70000")
    fixture.use { opened =>
      append(opened, 0, 110)
      val before = MappedSegment.list(DiskFiles, fixture.folder.resolve("consumequeue/orders/0"))
      assert(opened.store.retire() > 0)
      val after = MappedSegment.list(DiskFiles, fixture.folder.resolve("consumequeue/orders/0"))
      assert(after.nonEmpty && after.length < before.length, s"$before then $after")
    }
  }

  test("readers that run while retention works see messages or are told that they moved".proves(
    "retention"
  )) {
    val fixture = filled("maxCommitLogBytes" -> "70000")
    fixture.use { opened =>
      @volatile var isDone = false
      @volatile var problem: Option[Throwable] = None
      val reader = new Thread(() =>
        try
          while (!isDone) {
            val start = opened.store.minOffset(key)
            val found = read(opened, start)
            val first = records(found).headOption.map(_.position.queueOffset)
            if (found.status == ReadStatus.Found && !first.contains(start))
              throw new AssertionError(s"asked for $start, found $first")
          }
        catch { case error: Throwable => problem = Some(error) }
      )
      reader.start()
      (0 until 15).foreach { i =>
        append(opened, i * 30, i * 30 + 30)
        opened.store.retire()
      }
      isDone = true
      reader.join()
      assertEquals(problem, None)
    }
  }

  test(
    "with little space left sends are refused, reads go on, and sends too when space is back".proves(
      "retention"
    )
  ) {
    val fixture = filled("minFreeDiskBytes" -> "1000")
    val disk = new LimitedDisk
    val opened = fixture.open(files = disk)
    opened.append("orders", 0, "a")
    disk.usable = 999
    opened.store.checkDisk()
    opened.append("orders", 0, "b") match {
      case AppendOutcome.Unavailable(reason) => assert(reason.contains("999 bytes free"), reason)
      case other => fail(s"not refused: $other")
    }
    assertEquals(opened.bodies("orders", 0), Seq("a"))
    disk.usable = 1000
    opened.store.checkDisk()
    assert(opened.append("orders", 0, "b").isInstanceOf[AppendOutcome.Stored])
    assertEquals(opened.bodies("orders", 0), Seq("a", "b"))
    opened.close()
  }

  test(
    "an allocation that fails refuses that send whole; nothing is lost and nothing doubled".proves(
      "retention"
    )
  ) {
    val fixture = filled()
    val disk = new LimitedDisk
    val opened = fixture.open(files = disk)
    append(opened, 0, 20)
    disk.isFull = true
    val refused = (20 until 60).map(i => opened.append("orders", 0, s"$i " + "x" * 3000))
    assert(refused.last.isInstanceOf[AppendOutcome.Unavailable], s"${refused.last}")
    val stored = refused.count(_.isInstanceOf[AppendOutcome.Stored])
    assertEquals(opened.store.maxOffset(key), 20L + stored)
    disk.isFull = false
    append(opened, 20 + stored, 80)
    val expected = (0 until 80).map(i => s"$i")
    assertEquals(opened.bodies("orders", 0).map(_.takeWhile(_ != ' ')), expected)
    opened.close()
    assertEquals(fixture.use(_.bodies("orders", 0)).map(_.takeWhile(_ != ' ')), expected)
  }

  test("retention frees space even when a full disk takes no new checkpoint".proves("retention")) {
    val fixture = filled("maxCommitLogBytes" -> "70000")
    val disk = new LimitedDisk
    val opened = fixture.open(files = disk)
    append(opened, 0, 60)
    opened.store.checkpoint()
    append(opened, 60, 62)
    opened.store.checkpoint()
    disk.isFull = true
    append(opened, 62, 63)
    assert(opened.store.retire() > 0)
    disk.isFull = false
    opened.close()
    assertEquals(fixture.use(_.store.maxOffset(key)), 63L)
  }

  test(
    "after a failed flush of the log nothing is acknowledged and no checkpoint is written".proves(
      "retention"
    )
  ) {
    val fixture = filled()
    val disk = new LimitedDisk
    val opened = fixture.open(files = disk)
    opened.append("orders", 0, "a")
    disk.failsToForce = true
    assert(opened.append("orders", 0, "b").isInstanceOf[AppendOutcome.Unavailable])
    disk.failsToForce = false
    // The disk works again, but nobody knows what the failed flush left out.
    assert(opened.append("orders", 0, "c").isInstanceOf[AppendOutcome.Unavailable])
    val before = DiskFiles.read(fixture.folder.resolve("config/checkpoint.json")).map(_.toSeq)
    opened.close()
    assertEquals(
      DiskFiles.read(fixture.folder.resolve("config/checkpoint.json")).map(_.toSeq),
      before
    )
    assertEquals(fixture.use(_.bodies("orders", 0)).head, "a")
  }
}

/** The machine's disk, made to look full or to fail; it tells what small files were written. */
final class LimitedDisk extends FileLayer {
  private val written = new java.util.concurrent.ConcurrentLinkedQueue[(String, Thread)]()

  /** The names of the small files that were written and forced so far, and by whom. */
  def writes: Seq[(String, Thread)] = written.toArray(Array.empty[(String, Thread)]).toSeq
  @volatile var usable: Long = Long.MaxValue
  @volatile var isFull = false
  @volatile var failsToForce = false

  private def claim(): Unit = if (isFull) throw new IOException("No space left on device")

  override def map(file: Path, capacity: Int): MappedFile = {
    val mapped = DiskFiles.map(file, capacity)
    new MappedFile {
      override def bytes: java.nio.ByteBuffer = mapped.bytes
      override def force(from: Int, length: Int): Unit =
        if (failsToForce) throw new IOException("Input/output error")
        else mapped.force(from, length)
      override def noteRead(length: Int): Unit = mapped.noteRead(length)
      override def noteWrite(length: Int): Unit = mapped.noteWrite(length)
    }
  }
  override def zero(file: Path, from: Int, until: Int): Unit = {
    claim()
    DiskFiles.zero(file, from, until)
  }
  override def write(file: Path, content: Array[Byte]): Unit = {
    written.add((file.getFileName.toString.stripSuffix(".tmp"), Thread.currentThread()))
    claim()
    DiskFiles.write(file, content)
  }
  override def cut(file: Path, position: Int): Unit = DiskFiles.cut(file, position)
  override def read(file: Path): Option[Array[Byte]] = DiskFiles.read(file)
  override def move(from: Path, to: Path): Unit = DiskFiles.move(from, to)
  override def link(from: Path, to: Path): Unit = DiskFiles.link(from, to)
  override def delete(file: Path): Unit = DiskFiles.delete(file)
  override def deleteTree(root: Path): Unit = DiskFiles.deleteTree(root)
  override def exists(path: Path): Boolean = DiskFiles.exists(path)
  override def list(folder: Path): Seq[String] = DiskFiles.list(folder)
  override def createFolder(folder: Path, isForced: Boolean): Unit =
    DiskFiles.createFolder(folder, isForced)
  override def forceFolder(folder: Path): Unit = DiskFiles.forceFolder(folder)
  override def usableBytes(folder: Path): Long = usable
  override def lock(file: Path): Option[AutoCloseable] = DiskFiles.lock(file)
}
