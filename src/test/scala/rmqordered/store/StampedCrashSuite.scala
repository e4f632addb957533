package rmqordered.store

import java.nio.file.Path

import scala.util.Random

import rmqordered.config.BrokerConfig
import rmqordered.dedup.{LastStamp, SendStamp, StampedRequest, StreamKey}
import rmqordered.model.{QueueKey, TagFilter}
import rmqordered.protocol.{RecordContent, Slice}
import rmqordered.store.StoreFixture._
import rmqordered.util.ManualClock

/**
 * One sender that repeats itself and a disk that loses power: whatever is left of the log, it is 0,
 * 1, 2, ... each once, and the memory of the stream says exactly how far. A failure names its seed.
 */
class StampedCrashSuite extends munit.FunSuite {
  private val key = QueueKey("orders", 0)

  for {
    mode <- Seq("SYNC_FLUSH", "ASYNC_FLUSH")
    isStampedOnce <- Seq(false, true)
  } {
    val how = if (isStampedOnce) "one stamp per request" else "a stamp per message"
    test(s"after any power failure the memory of a stream agrees with its messages, $mode, $how") {
      val played = (1L to 150L).map(seed => new Run(seed, mode, isStampedOnce).play())
      assert(played.map(_.failures).sum > 100, "the power hardly ever failed")
      assert(played.map(_.landed).sum > 5000, "hardly anything was sent")
    }
  }

  private final class Run(seed: Long, mode: String, isStampedOnce: Boolean) {
    private val random = new Random(seed)
    private val disk = new SimulatedDisk(random)
    private val config = BrokerConfig.of(small + ("flushDiskType" -> mode))
    private var acknowledged = -1
    private var next = 0
    var failures = 0
    var landed = 0

    def play(): Run = {
      start().topics.put(topic)
      disk.crash()
      (0 until 8).foreach(_ => live())
      check(start())
      this
    }

    private def start(): MessageStore = {
      val directory = DataDirectory.open(Path.of("/simulated"), disk)
      val topics = new TopicTable(directory.table("topics"), Nil)
      new MessageStore(
        directory,
        config,
        topics,
        new ManualClock(),
        (_, _) => (),
        background = false
      )
    }

    /** The power may fail at the start already; it is off at the end in any case. */
    private def live(): Unit = {
      if (random.nextInt(4) == 0) disk.failAt(random.nextInt(40))
      try {
        val store = start()
        // A store whose log could not be flushed starts, but acknowledges nothing.
        if (disk.hasFailed) throw new PowerFailure
        check(store)
        disk.failAt(random.nextInt(200))
        (0 until random.nextInt(60)).foreach(_ => step(store))
        if (random.nextInt(4) == 0) store.close()
      } catch { case _: PowerFailure => failures += 1 }
      disk.crash()
    }

    private def step(store: MessageStore): Unit = {
      random.nextInt(10) match {
        case 0 => store.checkpoint()
        case 1 => disk.writeBackSome()
        case 2 | 3 => store.flush()
        case _ => send(store)
      }
      if (disk.hasFailed) throw new PowerFailure
    }

    private def send(store: MessageStore): Unit = {
      val first = Math.max(next - random.nextInt(4), 0)
      val sequences = first to first + random.nextInt(5)
      val digests = sequences.map(_.toLong).toVector
      val request = StampedRequest("sink", 0L, 1L, first.toLong, digests, isStampedOnce)
      store.appendStamped(envelope("orders", 0), sequences.map(message).toVector, request) {
        case _: StampedOutcome.Landed => acknowledged = Math.max(acknowledged, sequences.last)
        case StampedOutcome.Failed(_: AppendOutcome.Unavailable) => throw new PowerFailure
        case other => fail(s"seed $seed: $other")
      }
      landed += Math.max(sequences.last + 1 - next, 0)
      next = Math.max(next, sequences.last + 1)
    }

    private def message(sequence: Int): RecordContent = {
      val stamp = SendStamp("sink", 1L, 0L, sequence.toLong, sequence.toLong).text
      val properties = if (isStampedOnce) "" else s"${SendStamp.PropertyName}\u0001$stamp\u0002"
      new RecordContent(0, Slice(s"$sequence".getBytes), Slice(properties.getBytes))
    }

    private def check(store: MessageStore): Unit = {
      val all = ReadRequest(0L, ReadLimits(100000, 1 << 28, 100000), TagFilter.Everything)
      val found = records(store.read(key, all)).map(r => new String(r.content.body.toArray).toInt)
      assertEquals(found, found.indices.toSeq, s"seed $seed")
      if (mode == "SYNC_FLUSH") assert(found.length > acknowledged, s"seed $seed: $acknowledged")
      val last = found.lastOption.map(sequence => (sequence.toLong, sequence.toLong, 0L))
      // Nobody else writes here: the place of every message is known, from the first one on.
      val known = remembered(store).map(l => (l.sequence, l.queueOffset, l.runStart))
      assertEquals(known, last, s"seed $seed")
      next = found.length
      acknowledged = found.length - 1
    }

    private def remembered(store: MessageStore): Option[LastStamp] = {
      var answer: Option[Option[LastStamp]] = None
      store.lastStamp(StreamKey(key, "sink", 0L))(a => answer = Some(a.toOption.flatten))
      store.flush()
      answer.getOrElse(fail(s"seed $seed: no answer"))
    }
  }
}
