package rmqordered.store

import java.nio.ByteBuffer
import java.nio.file.{Files, Path, StandardOpenOption}

import scala.util.Random

import rmqordered.Proves._
import rmqordered.config.BrokerConfig
import rmqordered.model.QueueKey
import rmqordered.protocol.StoredRecord
import rmqordered.store.StoreFixture._
import rmqordered.util.ManualClock

/** What is on disk after a crash, made by hand: torn ends, stale bytes, damage. */
class RecoverySuite extends munit.FunSuite {
  private val sent = (0 until 20).map(i => s"message $i")

  private def filled(): (StoreFixture, Seq[Long]) =
    new StoreFixture(temporaryFolder()).crash { opened =>
      opened.store.topics.put(topic)
      sent.map(body => opened.append("orders", 0, body)).collect {
        case AppendOutcome.Stored(_, at) => at.head
      }
    }

  private def sizeAt(bytes: Array[Byte], at: Long): Int = ByteBuffer.wrap(bytes).getInt(at.toInt)

  private def overwrite(
      fixture: StoreFixture,
      at: Long,
      bytes: Array[Byte],
      file: Long = 0L
  ): Unit = {
    val channel = Files.newByteChannel(fixture.segment(file), StandardOpenOption.WRITE)
    try {
      channel.position(at)
      val _ = channel.write(ByteBuffer.wrap(bytes))
    } finally channel.close()
  }

  private def loseCheckpoint(fixture: StoreFixture): Unit =
    Seq("checkpoint.json", "checkpoint.json.bak").foreach { name =>
      Files.deleteIfExists(fixture.folder.resolve("config").resolve(name))
    }

  private def survivors(fixture: StoreFixture): Seq[String] =
    fixture.use(opened => opened.bodies("orders", 0))

  test("a last record torn anywhere is cut off, and the log goes on where it was cut".proves(
    "damaged-log-stops"
  )) {
    val (fixture, offsets) = filled()
    val bytes = Files.readAllBytes(fixture.segment(0))
    val lastSize = ByteBuffer.wrap(bytes).getInt(offsets.last.toInt)
    (1 until lastSize + AppendSeal.Bytes by 7).foreach { kept =>
      val torn = fixture.copy()
      val whole = lastSize + AppendSeal.Bytes
      overwrite(torn, offsets.last + kept, new Array[Byte](whole - kept))
      torn.use { opened =>
        assertEquals(opened.bodies("orders", 0), sent.init, s"with $kept bytes left")
        opened.append("orders", 0, "again")
        assertEquals(opened.bodies("orders", 0), sent.init :+ "again")
      }
    }
  }

  test(
    "a byte changed anywhere in the last append is noticed".proves("acked-survives-power-failure")
  ) {
    val (fixture, offsets) = filled()
    val bytes = Files.readAllBytes(fixture.segment(0))
    val whole = sizeAt(bytes, offsets.last) + AppendSeal.Bytes
    (0 until whole by 3).foreach { i =>
      val changed = fixture.copy()
      overwrite(changed, offsets.last + i, Array((bytes((offsets.last + i).toInt) ^ 1).toByte))
      assertEquals(survivors(changed), sent.init, s"byte $i")
    }
  }

  test("a wrong checksum at the end is cut off") {
    val (fixture, offsets) = filled()
    overwrite(fixture, offsets.last + StoredRecord.BodyCrcAt, Array[Byte](0, 0, 0, 1))
    assertEquals(survivors(fixture), sent.init)
  }

  test("garbage behind the last record does not come to life".proves("damaged-log-stops")) {
    val (fixture, offsets) = filled()
    val bytes = Files.readAllBytes(fixture.segment(0))
    val lastSize = ByteBuffer.wrap(bytes).getInt(offsets.last.toInt)
    val end = offsets.last + lastSize + AppendSeal.Bytes
    // An unfinished append: everything but its size, which is written last.
    val stale = bytes.slice(offsets.last.toInt, offsets.last.toInt + lastSize)
    ByteBuffer.wrap(stale).putInt(0, 0).putLong(StoredRecord.CommitLogOffsetAt, end)
    overwrite(fixture, end, stale)
    assertEquals(survivors(fixture), sent)
    val after = Files.readAllBytes(fixture.segment(0)).drop(end.toInt)
    assert(after.forall(_ == 0), "the unfinished append is still there")
  }

  test("an append killed in the middle of a batch leaves nothing of it") {
    val (fixture, offsets) = new StoreFixture(temporaryFolder()).crash { opened =>
      opened.store.topics.put(topic)
      opened.append("orders", 0, "before")
      opened.append("orders", 0, "batch 1", "batch 2", "batch 3") match {
        case AppendOutcome.Stored(_, at) => at
        case other => fail(s"not stored: $other")
      }
    }
    // The seal is written last of all: without it there is no batch.
    val sealAt = offsets.last + sizeAt(Files.readAllBytes(fixture.segment(0)), offsets.last)
    overwrite(fixture, sealAt, new Array[Byte](AppendSeal.Bytes))
    assertEquals(survivors(fixture), Seq("before"))
  }

  test(
    "a good seal over a record that cannot be read stops the broker, and nothing is cut off".proves(
      "damaged-log-stops"
    )
  ) {
    val (fixture, offsets) = filled()
    val bytes = ByteBuffer.wrap(Files.readAllBytes(fixture.segment(0)))
    val (start, size) = (offsets(10).toInt, sizeAt(bytes.array(), offsets(10)))
    // A length of the properties that does not fit its field, sealed as it is.
    bytes.putShort(start + size - 2, (-32766).toShort)
    AppendSeal.write(bytes, start, start + size, AppendSeal.Mark(0, 0))
    val _ = Files.write(fixture.segment(0), bytes.array())
    (0 until 2).foreach { _ =>
      val problem = intercept[StoreError](fixture.open()).getMessage
      assert(problem.contains(s"the append at byte $start has a good seal"), problem)
      assert(problem.contains("claims -32766 bytes") && problem.contains("backup"), problem)
    }
    assertEquals(Files.readAllBytes(fixture.segment(0)).toSeq, bytes.array().toSeq)
  }

  test("damage below the checkpoint stops the broker when it is met, in the last file too".proves(
    "damaged-log-stops"
  )) {
    val (fixture, offsets) = filled()
    fixture.use(_ => ())
    overwrite(fixture, offsets.last + 20, Array[Byte](7))
    val problem = intercept[StoreError](fixture.open()).getMessage
    assert(problem.contains("is damaged at byte") && problem.contains("known to reach"), problem)
  }

  private def refusal(fixture: StoreFixture): String =
    intercept[StoreError](fixture.open()).getMessage

  test(
    "a byte changed anywhere in an append that a later one calls forced stops the broker".proves(
      "damaged-log-stops"
    )
  ) {
    val (fixture, offsets) = filled()
    val bytes = Files.readAllBytes(fixture.segment(0))
    val whole = sizeAt(bytes, offsets(10)) + AppendSeal.Bytes
    (0 until whole by 3).foreach { i =>
      val changed = fixture.copy()
      overwrite(changed, offsets(10) + i, Array((bytes((offsets(10) + i).toInt) ^ 1).toByte))
      val before = Files.readAllBytes(changed.segment(0)).toSeq
      (0 until 2).foreach { _ =>
        val problem = refusal(changed)
        assert(problem.contains(s"damaged at byte ${offsets(10)} "), s"byte $i: $problem")
        assert(problem.contains("00000000000000000000"), problem)
      }
      assertEquals(Files.readAllBytes(changed.segment(0)).toSeq, before, s"byte $i")
    }
  }

  test("an append zeroed under later ones, or a file gone before them, stops the broker".proves(
    "damaged-log-stops"
  )) {
    val (fixture, offsets) = filled()
    val zeroed = fixture.copy()
    overwrite(zeroed, offsets(10), new Array[Byte]((offsets(12) - offsets(10)).toInt))
    assert(refusal(zeroed).contains(s"damaged at byte ${offsets(10)} (no record)"))
    val (long, _) = new StoreFixture(temporaryFolder()).crash { opened =>
      opened.store.topics.put(topic)
      (0 until 80).foreach(i => opened.append("orders", 0, s"$i " + "x" * 3000))
    }
    Files.delete(long.segment(70000L))
    assert(refusal(long).contains("says that the log was on disk up to"))
  }

  test("a torn append is cut off with the whole ones behind it that say nothing else") {
    // Nothing was forced between these: after a power failure any of them may be torn.
    val settings = small + ("flushDiskType" -> "ASYNC_FLUSH") + ("flushIntervalMs" -> "60000")
    val (fixture, offsets) = new StoreFixture(temporaryFolder(), settings).crash { opened =>
      opened.store.topics.put(topic)
      sent.map(body => opened.append("orders", 0, body)).collect {
        case AppendOutcome.Stored(_, at) => at.head
      }
    }
    overwrite(fixture, offsets(10) + 20, Array[Byte](7))
    assertEquals(survivors(fixture), sent.take(10))
  }

  test("a body that looks like a good seal cannot keep the broker from starting") {
    val (fixture, offsets) = new StoreFixture(temporaryFolder()).crash { opened =>
      opened.store.topics.put(topic)
      opened.append("orders", 0, "first")
      // It says that everything before it was forced, under whatever key its sender guesses.
      val forged = ByteBuffer.allocate(100 + AppendSeal.Bytes)
      AppendSeal.write(forged, 0, 100, AppendSeal.Mark(0, 12345678))
      opened.append("orders", 0, new String(forged.array(), "ISO-8859-1")) match {
        case AppendOutcome.Stored(_, at) => at
        case other => fail(s"not stored: $other")
      }
    }
    overwrite(fixture, offsets.head + 20, Array[Byte](7))
    assertEquals(survivors(fixture), Seq("first"))
  }

  test("a log with seals of the older form goes on, and its damage is cut off as it was") {
    val (fixture, offsets) = filled()
    val bytes = ByteBuffer.wrap(Files.readAllBytes(fixture.segment(0)))
    // The same records with old seals; each record has to say where it stands.
    val old = ByteBuffer.allocate(bytes.capacity())
    val starts = offsets.scanLeft(0) { (at, offset) =>
      val size = bytes.getInt(offset.toInt)
      old.put(at, bytes, offset.toInt, size).putLong(at + StoredRecord.CommitLogOffsetAt, at.toLong)
      val crc = new java.util.zip.CRC32C()
      crc.update(old.duplicate().limit(at + size).position(at))
      old.putInt(at + size, 16).putInt(at + size + 4, 0x5ea1da7a)
        .putInt(at + size + 8, size).putInt(at + size + 12, crc.getValue.toInt)
      at + size + 16
    }
    val _ = Files.write(fixture.segment(0), old.array())
    val torn = fixture.copy()
    overwrite(torn, starts(10) + 20L, Array[Byte](7))
    assertEquals(survivors(torn), sent.take(10))
    fixture.use { opened =>
      opened.append("orders", 0, "new")
      assertEquals(opened.bodies("orders", 0), sent :+ "new")
    }
    assertEquals(survivors(fixture), sent :+ "new")
  }

  test("damage in a file with later files behind it stops the broker and names the place".proves(
    "damaged-log-stops"
  )) {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      (0 until 60).foreach(i => opened.append("orders", 0, s"$i " + "x" * 3000))
    }
    overwrite(fixture, 4L, Array[Byte](1, 2, 3, 4))
    def problem = intercept[StoreError](fixture.open()).getMessage
    def ensurePlace(told: String): Unit =
      assert(told.contains("00000000000000000000") && told.contains("damaged at byte 0"), told)
    ensurePlace(problem)
    loseCheckpoint(fixture)
    val told = problem
    ensurePlace(told)
    assert(told.contains("later files exist"), told)
    assert(Files.exists(fixture.segment(70000L)), "a later file was thrown away")
  }

  test("a file that was just finished, without a next one, is gone on from") {
    val fixture = new StoreFixture(temporaryFolder())
    val sentLong = (0 until 40).map(i => s"$i " + "x" * 3000)
    fixture.use { opened =>
      opened.store.topics.put(topic)
      sentLong.foreach(body => opened.append("orders", 0, body))
    }
    // Killed after the filler of the first file, before the second was made; no checkpoint knows
    // more.
    Files.delete(fixture.segment(70000L))
    loseCheckpoint(fixture)
    val kept = fixture.use { opened =>
      val found = opened.bodies("orders", 0)
      opened.append("orders", 0, "next")
      found
    }
    assertEquals(kept, sentLong.take(kept.length))
    assertEquals(survivors(fixture), kept :+ "next")
  }

  test("a missing file in the middle stops the broker") {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      (0 until 80).foreach(i => opened.append("orders", 0, s"$i " + "x" * 3000))
    }
    Files.delete(fixture.segment(70000L))
    assert(intercept[StoreError](fixture.open()).getMessage.contains("gap"))
  }

  test("a lost topic table stops the broker instead of losing the messages") {
    val (fixture, _) = filled()
    Files.delete(fixture.folder.resolve("config/topics.json"))
    assert(intercept[StoreError](fixture.open()).getMessage.contains("topics.json"))
  }

  test("consume queues are rebuilt to match the log exactly") {
    val (fixture, offsets) = filled()
    val folder = fixture.folder.resolve("consumequeue/orders/0")
    overwriteFile(folder.resolve(MappedSegment.fileName(0L)), Array.fill[Byte](200)(0x55))
    Files.createDirectories(fixture.folder.resolve("consumequeue/ghost/0"))
    assertEquals(survivors(fixture), sent)
    val unit = ByteBuffer.wrap(Files.readAllBytes(folder.resolve(MappedSegment.fileName(200L))))
    assertEquals(unit.getLong(0), offsets(10))
    assert(!Files.exists(fixture.folder.resolve("consumequeue/ghost")))
  }

  test("a log cut below a tombstone does not bury what is sent afterwards") {
    val (fixture, offsets) = new StoreFixture(temporaryFolder()).crash { opened =>
      opened.store.topics.put(topic)
      val offsets = sent.map(body => opened.append("orders", 0, body)).collect {
        case AppendOutcome.Stored(_, at) => at.head
      }
      opened.store.deleteTopic("orders")
      opened.store.topics.put(topic)
      offsets
    }
    val end = Files.readAllBytes(fixture.segment(0)).length
    overwrite(fixture, offsets(5), new Array[Byte](end - offsets(5).toInt))
    fixture.use(opened => opened.append("orders", 0, "young"))
    assertEquals(survivors(fixture), Seq("young"))
  }

  test("after a crash without close, everything acknowledged is there") {
    val (fixture, _) = filled()
    assertEquals(survivors(fixture), sent)
  }

  private def overwriteFile(file: java.nio.file.Path, bytes: Array[Byte]): Unit = {
    val _ = Files.write(file, bytes, StandardOpenOption.WRITE)
  }

  test(
    "what is acknowledged after a kill survives a power failure, in a file made before the kill".proves(
      "acked-survives-power-failure"
    )
  ) {
    val random = new Random(3L)
    (0 until 20).foreach { turn =>
      val disk = new SimulatedDisk(random)
      def open(mode: String): MessageStore = {
        val directory = DataDirectory.open(Path.of("/simulated"), disk)
        val topics = new TopicTable(directory.table("topics"), Nil)
        topics.put(topic)
        val config = BrokerConfig.of(small + ("flushDiskType" -> mode))
        val clock = new ManualClock()
        new MessageStore(directory, config, topics, clock, (_, _) => (), background = false)
      }
      open("ASYNC_FLUSH").append(envelope("orders", 0), Vector(content("a")))(_ => ())
      // The first one was killed: nothing of it was flushed, and nothing is lost yet.
      val second = open("SYNC_FLUSH")
      var outcome: Option[AppendOutcome] = None
      second.append(envelope("orders", 0), Vector(content("b")))(found => outcome = Some(found))
      second.flush()
      assert(outcome.exists(_.isInstanceOf[AppendOutcome.Stored]), s"$outcome")
      disk.crash()
      assertEquals(open("SYNC_FLUSH").maxOffset(QueueKey("orders", 0)), 2L, s"turn $turn")
    }
  }
}
