package rmqordered.store

import java.nio.ByteBuffer
import java.nio.file.{Files, StandardOpenOption}

import rmqordered.model.QueueKey
import rmqordered.protocol.StoredRecord
import rmqordered.store.StoreFixture._

/** What is on disk after a crash, made by hand: torn ends, stale bytes, damage. */
class RecoverySuite extends munit.FunSuite {
  private val key = QueueKey("orders", 0)
  private val sent = (0 until 20).map(i => s"message $i")

  private def filled(): (StoreFixture, Seq[Long]) = {
    val fixture = new StoreFixture(temporaryFolder())
    val offsets = fixture.use { opened =>
      opened.store.topics.put(topic)
      sent.map(body => opened.append("orders", 0, body)).collect {
        case AppendOutcome.Stored(_, at) => at.head
      }
    }
    (fixture, offsets)
  }

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

  private def survivors(fixture: StoreFixture): Seq[String] =
    fixture.use(opened => opened.bodies("orders", 0))

  test("a last record torn anywhere is cut off, and the log goes on where it was cut") {
    val (fixture, offsets) = filled()
    val bytes = Files.readAllBytes(fixture.segment(0))
    val lastSize = ByteBuffer.wrap(bytes).getInt(offsets.last.toInt)
    Seq(1, 4, 8, 20, 60, lastSize - 12).foreach { kept =>
      overwrite(
        fixture,
        offsets.last,
        bytes.slice(offsets.last.toInt, offsets.last.toInt + lastSize)
      )
      overwrite(fixture, offsets.last + kept, new Array[Byte](lastSize - kept))
      fixture.use { opened =>
        assertEquals(opened.bodies("orders", 0), sent.init, s"with $kept bytes left")
        opened.append("orders", 0, "again")
        assertEquals(opened.bodies("orders", 0), sent.init :+ "again")
      }
    }
  }

  test("a wrong checksum at the end is cut off") {
    val (fixture, offsets) = filled()
    overwrite(fixture, offsets.last + StoredRecord.BodyCrcAt, Array[Byte](0, 0, 0, 1))
    assertEquals(survivors(fixture), sent.init)
  }

  test("garbage behind the last record does not come to life") {
    val (fixture, offsets) = filled()
    val bytes = Files.readAllBytes(fixture.segment(0))
    val lastSize = ByteBuffer.wrap(bytes).getInt(offsets.last.toInt)
    val end = offsets.last + lastSize
    // An unfinished append: everything but its size, which is written last.
    val stale = bytes.slice(offsets.last.toInt, offsets.last.toInt + lastSize)
    ByteBuffer.wrap(stale).putInt(0, 0).putLong(StoredRecord.CommitLogOffsetAt, end)
    overwrite(fixture, end, stale)
    assertEquals(survivors(fixture), sent)
    val after = Files.readAllBytes(fixture.segment(0)).drop(end.toInt)
    assert(after.forall(_ == 0), "the unfinished append is still there")
  }

  test("an append killed in the middle of a batch leaves nothing of it") {
    val (fixture, _) = filled()
    val end = fixture.use { opened =>
      opened.append("orders", 0, "batch 1", "batch 2", "batch 3") match {
        case AppendOutcome.Stored(_, at) => at.head
        case other => fail(s"not stored: $other")
      }
    }
    // The first record's size is written last of all: without it there is no batch.
    overwrite(fixture, end, new Array[Byte](4))
    assertEquals(survivors(fixture), sent)
  }

  test("damage in a file with later files behind it stops the broker and names the place") {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      (0 until 60).foreach(i => opened.append("orders", 0, s"$i " + "x" * 3000))
    }
    overwrite(fixture, 4L, Array[Byte](1, 2, 3, 4))
    val problem = intercept[StoreError](fixture.open()).getMessage
    assert(
      problem.contains("00000000000000000000") && problem.contains("damaged at byte 0"),
      problem
    )
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
    val (fixture, offsets) = filled()
    fixture.use { opened =>
      opened.store.deleteTopic("orders")
      opened.store.topics.put(topic)
    }
    overwrite(fixture, offsets(5), new Array[Byte](4))
    fixture.use(opened => opened.append("orders", 0, "young"))
    assertEquals(survivors(fixture), Seq("young"))
  }

  test("after a crash without close, everything acknowledged is there") {
    val fixture = new StoreFixture(temporaryFolder())
    val crashed = fixture.open()
    crashed.store.topics.put(topic)
    sent.foreach(body => crashed.append("orders", 0, body))
    // The process is gone, its page cache is not: a copy of the folder is what the next one finds.
    val copy = temporaryFolder()
    val files = Files.walk(fixture.folder)
    try
      files.forEach { file =>
        val target = copy.resolve(fixture.folder.relativize(file).toString)
        if (Files.isDirectory(file)) { val _ = Files.createDirectories(target) }
        else { val _ = Files.copy(file, target) }
      }
    finally files.close()
    assertEquals(survivors(new StoreFixture(copy)), sent)
    assertEquals(crashed.store.maxOffset(key), sent.length.toLong)
    crashed.close()
  }

  private def overwriteFile(file: java.nio.file.Path, bytes: Array[Byte]): Unit = {
    val _ = Files.write(file, bytes, StandardOpenOption.WRITE)
  }
}
