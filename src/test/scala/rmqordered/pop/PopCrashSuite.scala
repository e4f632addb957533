package rmqordered.pop

import java.nio.file.Path

import scala.collection.mutable
import scala.util.Random

import rmqordered.Proves._
import rmqordered.config.BrokerConfig
import rmqordered.model.{HostAddress, Names, QueueKey, TagFilter, TopicConfig}
import rmqordered.offset.OffsetKey
import rmqordered.store.StoreFixture._
import rmqordered.store._
import rmqordered.util.ManualClock

/**
 * Pops and acknowledgements on a disk that loses power. Whatever is left, a message nobody tried to
 * acknowledge is still to be had, and one whose acknowledgement was answered is not (with
 * synchronous flush, as for messages). A failure names its seed.
 */
class PopCrashSuite extends munit.FunSuite {
  private val key = OffsetKey("g", QueueKey("orders", 0))
  private val host = new HostAddress(Array[Byte](127, 0, 0, 1), 9876)

  override def munitTimeout: scala.concurrent.duration.Duration =
    scala.concurrent.duration.Duration(10, java.util.concurrent.TimeUnit.MINUTES)

  test("after any power failure every message is to be had or was acknowledged".proves(
    "pop-power-failure"
  )) {
    Seq("SYNC_FLUSH", "ASYNC_FLUSH").foreach { mode =>
      val played = (1L to 60L).map(seed => new Run(seed, mode).play())
      assert(played.map(_.failures).sum > 40, "the power hardly ever failed")
      assert(played.map(_.acknowledged.size).sum > 200, "hardly anything was acknowledged")
    }
  }

  private final class Run(seed: Long, mode: String) {
    private val random = new Random(seed)
    private val disk = new SimulatedDisk(random)
    private val clock = new ManualClock()
    private val config = BrokerConfig.of(small + ("flushDiskType" -> mode))
    private val tried = mutable.Set.empty[String]
    val acknowledged = mutable.Set.empty[String]
    private var sent = 0
    var failures = 0

    def play(): Run = {
      start()._1.topics.put(topic)
      disk.crash()
      (0 until 8).foreach(_ => live())
      val (store, table) = start()
      check(store, table)
      this
    }

    private def start(): (MessageStore, PopTable) = {
      val directory = DataDirectory.open(Path.of("/simulated"), disk)
      val topics =
        new TopicTable(directory.table("topics"), Seq(TopicConfig(Names.PopLogTopic, 1, 1)))
      val table = new PopTable
      val follower = new PopFollower(table, directory.pops)
      val store = new MessageStore(
        directory,
        config,
        topics,
        clock,
        (_, _) => (),
        background = false,
        followers = Seq(follower)
      )
      follower.clampTo(store)
      table.connect(new LogJournal(store, host))
      (store, table)
    }

    private def live(): Unit = {
      if (random.nextInt(4) == 0) disk.failAt(random.nextInt(40))
      try {
        val (store, table) = start()
        check(store, table)
        disk.failAt(random.nextInt(300))
        (0 until random.nextInt(80)).foreach(_ => step(store, table))
        if (random.nextInt(4) == 0) store.close()
      } catch { case _: PowerFailure => failures += 1 }
      disk.crash()
    }

    private def step(store: MessageStore, table: PopTable): Unit = {
      clock.advance(random.nextInt(3).toLong)
      random.nextInt(12) match {
        case 0 => store.checkpoint()
        case 1 => disk.writeBackSome()
        case 2 | 3 => store.flush()
        case 4 | 5 | 6 => pop(store, table)
        case 7 | 8 => ack(store, table)
        case 9 => change(table)
        case _ => send(store)
      }
      if (disk.hasFailed) throw new PowerFailure
    }

    private def send(store: MessageStore): Unit = {
      val bodies = Vector.fill(1 + random.nextInt(4)) {
        sent += 1
        content(s"$sent")
      }
      store.append(envelope("orders", 0), bodies)(_ => ())
    }

    private def pop(store: MessageStore, table: PopTable): Unit = table.under(key) { queue =>
      val start = queue.state.next.getOrElse(0L)
      val end = Math.min(store.maxOffset(key.queue), start + 1 + random.nextInt(5))
      if (end > start) {
        val id = queue.state.freeId(start, clock.wallMillis())
        val point = CheckPoint(id, 60000L, (start until end).toVector)
        queue.record(PopRecord.Popped(key, point, end))(_ => ())
      }
    }

    private def ack(store: MessageStore, table: PopTable): Unit = table.under(key) { queue =>
      random.shuffle(queue.state.checkPoints.values.toVector).headOption.foreach { point =>
        val offset = point.pending(random.nextInt(point.pending.length))
        val body = bodyAt(store, offset)
        tried += body
        queue.record(queue.state.ack(point.id, Seq(offset)).get) {
          case None => acknowledged += body
          case Some(_) => throw new PowerFailure
        }
      }
    }

    private def change(table: PopTable): Unit = table.under(key) { queue =>
      random.shuffle(queue.state.checkPoints.values.toVector).headOption.foreach { point =>
        val offset = point.pending.head
        val changed = queue.state.change(point.id, offset, clock.wallMillis(), 1000L).get
        queue.record(changed)(_ => ())
      }
    }

    private def bodyAt(store: MessageStore, offset: Long): String =
      new String(store.record(key.queue, offset).get.content.body.toArray)

    private def check(store: MessageStore, table: PopTable): Unit = {
      val all = ReadRequest(0L, ReadLimits(100000, 1 << 28, 100000), TagFilter.Everything)
      val state = table.state(key).getOrElse(QueueState(key))
      val out = state.checkPoints.values.flatMap(_.pending).toSet
      records(store.read(key.queue, all)).foreach { record =>
        val body = new String(record.content.body.toArray)
        val offset = record.position.queueOffset
        val isToBeHad = state.next.forall(offset >= _) || out.contains(offset)
        if (!tried.contains(body)) assert(isToBeHad, s"seed $seed: message $body is lost")
        if (mode == "SYNC_FLUSH" && acknowledged.contains(body))
          assert(!isToBeHad, s"seed $seed: message $body was acknowledged")
      }
      assert(out.forall(_ < store.maxOffset(key.queue)), s"seed $seed: a message to come is out")
    }
  }
}
