package rmqordered.store

import java.nio.file.{Files, Path}
import java.util.concurrent.{CompletableFuture, TimeUnit}

import rmqordered.dedup.{LastStamp, SendStamp, StampedRequest, StreamKey}
import rmqordered.model.QueueKey
import rmqordered.protocol.{RecordContent, Slice}
import rmqordered.store.StoreFixture._

/** The memory of stamped sends over restarts that read only the end of the log. */
class StampedRecoverySuite extends munit.FunSuite {
  private val key = QueueKey("orders", 0)

  private def message(sequence: Long, isStamped: Boolean): RecordContent = {
    val stamp = SendStamp("sink", 1L, 0L, sequence, sequence).text
    val properties = if (isStamped) s"${SendStamp.PropertyName}\u0001$stamp\u0002" else ""
    new RecordContent(0, Slice(s"m$sequence".getBytes), Slice(properties.getBytes))
  }

  /** How many messages of a request were there before it; even ones have one stamp for all. */
  private def land(opened: StoreFixture#Opened, sequences: Range): Int = {
    val isStampedOnce = sequences.head % 2 == 0
    val outcome = new CompletableFuture[StampedOutcome]()
    val digests = sequences.map(_.toLong).toVector
    val request = StampedRequest("sink", 0L, 1L, sequences.head.toLong, digests, isStampedOnce)
    opened.store.appendStamped(
      envelope("orders", 0),
      sequences.map(i => message(i.toLong, !isStampedOnce)).toVector,
      request
    )(o => { val _ = outcome.complete(o) })
    outcome.get(10, TimeUnit.SECONDS) match {
      case landed: StampedOutcome.Landed => landed.landed
      case other => fail(s"not landed: $other")
    }
  }

  private def last(opened: StoreFixture#Opened): Option[LastStamp] = {
    val found = new CompletableFuture[Option[LastStamp]]()
    opened.store.lastStamp(StreamKey(key, "sink", 0L)) { answer =>
      val _ = found.complete(answer.fold(u => fail(u.reason), identity))
    }
    found.get(10, TimeUnit.SECONDS)
  }

  private def snapshot(fixture: StoreFixture): Path =
    fixture.folder.resolve("config/sendStreams.bin")

  private def crashedAfterCheckpoint(): StoreFixture =
    new StoreFixture(temporaryFolder()).crash { opened =>
      opened.store.topics.put(topic)
      land(opened, 0 to 2)
      opened.store.checkpoint()
      land(opened, 3 to 4)
    }._1

  private def assertRemembers(fixture: StoreFixture, scanned: Long): Unit = fixture.use { opened =>
    assertEquals(opened.store.scannedRecords, scanned)
    assertEquals(last(opened).map(l => (l.sequence, l.queueOffset, l.runStart)), Some((4L, 4L, 0L)))
    assertEquals(land(opened, 0 to 4), 5)
    assertEquals(opened.bodies("orders", 0), (0 to 4).map(i => s"m$i"))
  }

  test("after a crash only what landed after the checkpoint is read, and all of it is known") {
    val crashed = crashedAfterCheckpoint()
    assertRemembers(crashed, scanned = 2L)
    assertRemembers(crashed, scanned = 0L)
  }

  test("without a good snapshot the whole log is read, checkpoint or not") {
    Seq[StoreFixture => Unit](
      f => Files.delete(snapshot(f)),
      f => { val _ = Files.write(snapshot(f), Array[Byte](1, 2, 3)) }
    ).foreach { spoil =>
      val crashed = crashedAfterCheckpoint()
      spoil(crashed)
      assertRemembers(crashed, scanned = 5L)
      assertRemembers(crashed, scanned = 0L)
    }
  }

  test("a snapshot older than the checkpoint makes the scan longer, not wrong") {
    val fixture = new StoreFixture(temporaryFolder())
    val old = fixture.use { opened =>
      opened.store.topics.put(topic)
      land(opened, 0 to 0)
      opened.store.checkpoint()
      Files.readAllBytes(snapshot(fixture))
    }
    fixture.use(land(_, 1 to 4))
    Files.write(snapshot(fixture), old)
    assertRemembers(fixture, scanned = 4L)
  }

  test("a stream is forgotten when retention takes its last message, and stays forgotten") {
    val fixture = new StoreFixture(temporaryFolder(), small + ("maxCommitLogBytes" -> "140000"))
    fixture.use { opened =>
      opened.store.topics.put(topic)
      land(opened, 0 to 4)
      (0 until 20).foreach(i => opened.append("orders", 1, s"$i " + "x" * 3000))
      assertEquals(opened.store.retire(), 0)
      assertEquals(last(opened).map(_.sequence), Some(4L))
      (0 until 60).foreach(i => opened.append("orders", 1, s"$i " + "x" * 3000))
      assert(opened.store.retire() > 0)
      assertEquals(last(opened), None)
    }
    fixture.use { opened =>
      assertEquals(last(opened), None)
      assertEquals(land(opened, 0 to 1), 0)
      assertEquals(last(opened).map(_.queueOffset), Some(6L))
    }
  }
}
