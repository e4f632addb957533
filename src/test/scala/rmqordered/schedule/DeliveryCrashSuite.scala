package rmqordered.schedule

import java.nio.file.Path

import scala.collection.immutable.VectorMap
import scala.collection.mutable
import scala.util.Random

import rmqordered.Proves._
import rmqordered.config.BrokerConfig
import rmqordered.model.{Names, QueueKey, TagFilter, TopicConfig}
import rmqordered.protocol.{MessageProperties, RecordContent, Slice}
import rmqordered.store.StoreFixture._
import rmqordered.store._
import rmqordered.util.ManualClock

/**
 * Delayed messages on a disk that loses power: whatever is left of the log, each message in it that
 * was to come later comes, and with synchronous flush so does each that was acknowledged. Nothing
 * comes that nobody sent, and nothing early. A failure names its seed.
 */
class DeliveryCrashSuite extends munit.FunSuite {
  private val levels = Vector(1000L, 5000L)

  override def munitTimeout: scala.concurrent.duration.Duration =
    scala.concurrent.duration.Duration(10, java.util.concurrent.TimeUnit.MINUTES)

  Seq("SYNC_FLUSH", "ASYNC_FLUSH").foreach { mode =>
    test(s"after any power failure every delayed message that is left comes, $mode".proves(
      "delayed-message-comes"
    )) {
      val played = (1L to 100L).map { seed =>
        try new Run(seed, mode).play()
        catch { case error: Throwable => throw new AssertionError(s"seed $seed with $mode", error) }
      }
      assert(played.map(_.failures).sum > 40, "the power hardly ever failed")
      assert(played.map(_.deliveries).sum > 1000, "hardly anything was delivered")
    }
  }

  private final class Life(val store: MessageStore, directory: DataDirectory, clock: ManualClock) {
    val level = new LevelDelivery(store, levels, directory.table("delayOffset"), clock)
    val timer = new TimerDelivery(store, directory.table("timerProgress"), clock, 10000)

    def run(): Unit = {
      level.run()
      timer.run()
    }

    def flush(): Unit = {
      level.flush()
      timer.flush()
    }
  }

  private final class Run(seed: Long, mode: String) {
    private val random = new Random(seed)
    private val disk = new SimulatedDisk(random)
    private val clock = new ManualClock()
    private val due = mutable.Map.empty[String, Long]
    private val acknowledged = mutable.Set.empty[String]
    var failures, deliveries = 0

    def play(): Run = {
      (0 until 6).foreach(_ => live())
      finish()
      this
    }

    private def start(): Life = {
      val directory = DataDirectory.open(Path.of("/simulated"), disk)
      val rooms = Seq("t", Names.ScheduleTopic, Names.TimerTopic).map(TopicConfig(_, 2, 2))
      val store = new MessageStore(
        directory,
        BrokerConfig.of(small + ("flushDiskType" -> mode)),
        new TopicTable(directory.table("topics"), rooms),
        clock,
        (_, _) => (),
        background = false
      )
      new Life(store, directory, clock)
    }

    private def live(): Unit = {
      if (random.nextInt(4) == 0) disk.failAt(random.nextInt(40))
      try {
        val life = start()
        disk.failAt(random.nextInt(300))
        (0 until random.nextInt(80)).foreach(_ => step(life))
        if (random.nextInt(4) == 0) {
          life.store.close()
          life.flush()
        }
      } catch { case _: PowerFailure => failures += 1 }
      disk.crash()
    }

    private def step(life: Life): Unit = {
      random.nextInt(12) match {
        case 0 => life.store.checkpoint()
        case 1 => disk.writeBackSome()
        case 2 | 3 => life.store.flush()
        case 4 => life.flush()
        case 5 | 6 => clock.advance(random.nextInt(2500).toLong)
        case 7 | 8 | 9 => life.run()
        case _ => send(life)
      }
      if (disk.hasFailed) throw new PowerFailure
      ensureNothingEarly(life)
    }

    private def send(life: Life): Unit = {
      val body = s"message ${due.size}"
      val isLevel = random.nextBoolean()
      val wanted = 1 + random.nextInt(if (isLevel) levels.length else 8000)
      val property = if (isLevel) MessageProperties.Delay else MessageProperties.TimerDelayMs
      val planner = new DelayPlanner(DelayLimits(levels, 20000L), clock, () => true)
      val placed = planner
        .place(QueueKey("t", 0), VectorMap(property -> wanted.toString))
        .fold(fail(_), identity)
      due(body) = clock.wallMillis() + (if (isLevel) levels(wanted - 1) else wanted.toLong)
      val encoded = Slice(MessageProperties.encode(placed.properties).getBytes)
      val content = new RecordContent(0, Slice(body.getBytes), encoded)
      val envelope = StoreFixture.envelope(placed.queue.topic, placed.queue.queueId)
      life.store.append(envelope, Vector(content)) {
        case _: AppendOutcome.Stored => acknowledged += body
        case _ => ()
      }
    }

    private def bodies(life: Life, key: QueueKey): Seq[String] = {
      val all = ReadRequest(0L, ReadLimits(100000, 1 << 28, 100000), TagFilter.Everything)
      if (life.store.maxOffset(key) == 0L) Nil
      else records(life.store.read(key, all)).map(r => new String(r.content.body.toArray))
    }

    private def came(life: Life): Seq[String] = bodies(life, QueueKey("t", 0))

    private def ensureNothingEarly(life: Life): Unit = came(life).foreach { body =>
      assert(due.contains(body), s"'$body' was never sent")
      assert(clock.wallMillis() >= due(body), s"'$body' came before its time")
    }

    /** A machine that stays up. */
    private def finish(): Unit = {
      val life = start()
      clock.advance(60000)
      (0 until 5).foreach { _ =>
        life.run()
        life.store.flush()
      }
      val waiting = Seq(
        QueueKey(Names.ScheduleTopic, 0),
        QueueKey(Names.ScheduleTopic, 1),
        QueueKey(Names.TimerTopic, 0)
      ).flatMap(bodies(life, _)).toSet
      val missing = waiting -- came(life)
      assert(missing.isEmpty, s"${missing.size} messages in the log never came: ${missing.take(3)}")
      if (mode == "SYNC_FLUSH") {
        val lost = acknowledged.toSet -- came(life)
        assert(lost.isEmpty, s"${lost.size} acknowledged messages are lost: ${lost.take(3)}")
      }
      deliveries = came(life).length
      life.store.close()
    }
  }
}
