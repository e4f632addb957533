package rmqordered.store

import java.nio.file.{Files, Path}

import rmqordered.Proves._
import rmqordered.config.BrokerConfig
import rmqordered.model.QueueKey
import rmqordered.store.StoreFixture._

/** How much a start reads, and what it does when the files do not agree. */
class StoreOpeningSuite extends munit.FunSuite {
  private val sent = (0 until 120).map(i => s"message $i")

  private def filled(): StoreFixture = {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      sent.zipWithIndex.foreach { case (body, i) => opened.append("orders", i % 2, body) }
    }
    fixture
  }

  private def queueFolder(fixture: StoreFixture, queueId: Int): Path =
    fixture.folder.resolve(s"consumequeue/orders/$queueId")

  /** What a start finds, and how many records it had to read for it. */
  private def survivors(fixture: StoreFixture): (Seq[String], Long) = fixture.use { opened =>
    val found = opened.bodies("orders", 0).zipAll(opened.bodies("orders", 1), "", "")
    (found.flatMap { case (a, b) => Seq(a, b) }, opened.store.scannedRecords)
  }

  test("after a clean stop nothing is read again".proves("start-after-checkpoint")) {
    assertEquals(survivors(filled()), (sent, 0L))
  }

  test("after a crash only what came after the checkpoint is read again".proves(
    "start-after-checkpoint"
  )) {
    val fixture = new StoreFixture(temporaryFolder())
    val (crashed, _) = fixture.crash { opened =>
      opened.store.topics.put(topic)
      sent.take(80).zipWithIndex.foreach { case (body, i) => opened.append("orders", i % 2, body) }
      opened.store.checkpoint()
      sent.drop(80).zipWithIndex.foreach { case (body, i) => opened.append("orders", i % 2, body) }
    }
    assertEquals(survivors(crashed), (sent, 40L))
    assertEquals(survivors(crashed), (sent, 0L))
  }

  test("the work of a start does not grow with the log".proves("start-after-checkpoint")) {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use(_.store.topics.put(topic))
    val read = (1 to 3).map { _ =>
      val (crashed, _) = fixture.crash { opened =>
        (0 until 150).foreach(i => opened.append("orders", 0, s"$i"))
        opened.store.checkpoint()
        (0 until 7).foreach(i => opened.append("orders", 0, s"$i"))
      }
      crashed.use(_.store.scannedRecords)
    }
    assertEquals(read, Seq(7L, 7L, 7L))
  }

  test("a missing queue file, a whole missing queue and a missing index are made anew".proves(
    "start-after-checkpoint"
  )) {
    Seq[StoreFixture => Unit](
      f => Files.delete(queueFolder(f, 0).resolve(MappedSegment.fileName(200L))),
      f => DiskFiles.deleteTree(queueFolder(f, 1)),
      f => DiskFiles.deleteTree(f.folder.resolve("consumequeue")),
      f => DiskFiles.deleteTree(f.folder.resolve("index")),
      f => Files.write(queueFolder(f, 0).resolve(MappedSegment.fileName(0L)), new Array[Byte](7))
    ).zipWithIndex.foreach { case (damage, i) =>
      val fixture = filled()
      withKeys(fixture)
      damage(fixture)
      val (found, read) = survivors(fixture)
      assertEquals(found.take(sent.length), sent, s"case $i")
      assertEquals(read, sent.length + 1L, s"case $i")
      assertEquals(survivors(fixture)._2, 0L, s"case $i")
    }
  }

  private def withKeys(fixture: StoreFixture): Unit = fixture.use { opened =>
    opened.store.append(envelope("orders", 0), Vector(keyed("last", "k")))(_ => ())
  }

  test("a queue whose first or last unit points elsewhere is made anew".proves(
    "start-after-checkpoint"
  )) {
    Seq(0L, 59L).foreach { unit =>
      val fixture = filled()
      val byte = unit * ConsumeQueue.UnitBytes
      val file = queueFolder(fixture, 0).resolve(MappedSegment.fileName(byte / 200 * 200))
      val bytes = Files.readAllBytes(file)
      bytes((byte % 200 + 7).toInt) = (bytes((byte % 200 + 7).toInt) ^ 1).toByte
      Files.write(file, bytes)
      assertEquals(survivors(fixture), (sent, 120L))
    }
  }

  test("a unit damaged in the middle of a queue serves nothing, and says what to do".proves(
    "start-after-checkpoint"
  )) {
    val fixture = filled()
    val file = queueFolder(fixture, 0).resolve(MappedSegment.fileName(200L))
    val bytes = Files.readAllBytes(file)
    Seq(7, 3, 0).foreach { at =>
      val changed = bytes.clone()
      changed(at) = (changed(at) ^ 1).toByte
      Files.write(file, changed)
      fixture.use { opened =>
        val request =
          ReadRequest(10L, ReadLimits(32, 1 << 20, 800), rmqordered.model.TagFilter.Everything)
        val problem =
          intercept[java.io.IOException](opened.store.read(QueueKey("orders", 0), request))
        assert(problem.getMessage.contains("unit 10"), problem.getMessage)
      }
    }
  }

  test("another size of queue files makes the queues anew".proves("start-after-checkpoint")) {
    val fixture = filled()
    val other = new StoreFixture(fixture.folder, small + ("mappedFileSizeConsumeQueue" -> "400"))
    assertEquals(survivors(other), (sent, 120L))
    assertEquals(survivors(other), (sent, 0L))
  }

  test(
    "without a checkpoint everything is read; a log that lost its beginning is not opened".proves(
      "start-after-checkpoint"
    )
  ) {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      (0 until 60).foreach(i => opened.append("orders", 0, s"$i " + "x" * 3000))
    }
    Seq("checkpoint.json", "checkpoint.json.bak").foreach { name =>
      Files.deleteIfExists(fixture.folder.resolve("config").resolve(name))
    }
    assertEquals(fixture.use(_.store.scannedRecords), 60L)
    Seq("checkpoint.json", "checkpoint.json.bak").foreach { name =>
      Files.deleteIfExists(fixture.folder.resolve("config").resolve(name))
    }
    Files.delete(fixture.segment(0L))
    val problem = intercept[StoreError](fixture.open()).getMessage
    assert(problem.contains("checkpoint.json"), problem)
  }

  test("a damaged checkpoint gives way to the one before it".proves("start-after-checkpoint")) {
    val fixture = filled()
    fixture.use(opened => opened.append("orders", 0, "more"))
    Files.write(fixture.folder.resolve("config/checkpoint.json"), "{".getBytes)
    val (found, read) = survivors(fixture)
    assert(found.contains("more") && read <= 1, s"$read records read")
  }

  test("a topic deleted after the checkpoint stays deleted, and one made again starts at 0".proves(
    "start-after-checkpoint"
  )) {
    val fixture = filled()
    val (crashed, _) = fixture.crash { opened =>
      opened.store.deleteTopic("orders")
      opened.store.topics.put(topic)
      opened.append("orders", 1, "young")
    }
    assertEquals(survivors(crashed)._1, Seq("", "young"))
    assertEquals(survivors(crashed)._2, 0L)
  }

  test("a follower sees every living record that its file does not know, and no other".proves(
    "start-after-checkpoint"
  )) {
    val fixture = new StoreFixture(temporaryFolder())
    val follower = new RememberingFollower
    val first = fixture.open(followers = Seq(follower))
    first.store.topics.put(topic)
    (0 until 3).foreach(i => first.append("orders", 0, s"$i"))
    first.store.checkpoint()
    val saved = follower.durableTo
    assertEquals(saved, first.store.logEnd)
    (3 until 5).foreach(i => first.append("orders", 0, s"$i"))
    val crashed = fixture.copy()
    first.close()
    // One whose file is older than the checkpoint, one as old, one without a file.
    Seq(0L -> 5, saved -> 2).foreach { case (from, count) =>
      val again = new RememberingFollower(from)
      val opened = crashed.copy().open(followers = Seq(again))
      assertEquals(again.seen, (5 - count until 5).map(_.toLong))
      assertEquals(opened.bodies("orders", 0), (0 until 5).map(_.toString))
      opened.close()
      assertEquals(again.durableTo, opened.store.logEnd)
    }
  }

  test("files behind an unfinished append are removed".proves("start-after-checkpoint")) {
    val unflushed = small + ("flushDiskType" -> "ASYNC_FLUSH") + ("flushIntervalMs" -> "60000")
    val fixture = new StoreFixture(temporaryFolder(), unflushed)
    val (crashed, offsets) = fixture.crash { opened =>
      opened.store.topics.put(topic)
      (0 until 60).map(i => opened.append("orders", 0, s"$i " + "x" * 3000)).collect {
        case AppendOutcome.Stored(_, at) => at.head
      }
    }
    // Nobody was told that these are stored: the checkpoint is from before them.
    val channel = Files.newByteChannel(crashed.segment(0L), java.nio.file.StandardOpenOption.WRITE)
    channel.position(offsets(5) + 100)
    channel.write(java.nio.ByteBuffer.allocate(10))
    channel.close()
    assertEquals(crashed.use(_.bodies("orders", 0).length), 5)
    assertEquals(MappedSegment.list(DiskFiles, crashed.folder.resolve("commitlog")), Vector(0L))
  }

  test("a disk that fails in the middle of a checkpoint leaves the last one".proves(
    "start-after-checkpoint"
  )) {
    val config = BrokerConfig.of(small)
    val disk = new SimulatedDisk(new scala.util.Random(1))
    def open() = {
      val directory = DataDirectory.open(Path.of("/data"), disk)
      val topics = new TopicTable(directory.table("topics"), Nil)
      new MessageStore(
        directory,
        config,
        topics,
        new rmqordered.util.ManualClock(),
        (_, _) => (),
        background = false
      )
    }
    val store = open()
    store.topics.put(topic)
    (0 until 10).foreach(i => store.append(envelope("orders", 0), Vector(content(s"$i")))(_ => ()))
    store.flush()
    disk.failAt(2)
    intercept[PowerFailure](store.checkpoint())
    disk.crash()
    assertEquals(open().maxOffset(QueueKey("orders", 0)), 10L)
  }
}

/** Follows the log by remembering the queue offsets it was shown. */
final class RememberingFollower(from: Long = 0L) extends LogFollower {
  @volatile var durableTo: Long = from
  var seen = Vector.empty[Long]

  override def replay(record: rmqordered.protocol.DecodedRecord): Unit =
    seen = seen :+ record.position.queueOffset

  override def startAnew(): Unit = {
    durableTo = 0L
    seen = Vector.empty
  }

  override def snapshot(logOffset: Long): () => Unit = () => durableTo = logOffset
}
