package rmqordered.schedule

import scala.collection.immutable.VectorMap
import scala.collection.mutable
import scala.util.Random

import rmqordered.model.{Names, QueueKey, TopicConfig}
import rmqordered.protocol.{MessageProperties, RecordContent, Slice}
import rmqordered.store.StoreFixture
import rmqordered.util.{Eventually, ManualClock, MemoryFile}

/**
 * Both deliveries under random sends, waits, crashes (the progress is the last one written) and
 * full disks: nothing is lost, nothing is early, and without a crash nothing comes twice. A failing
 * seed is printed.
 */
class DeliveryModelSuite extends munit.FunSuite {
  private val levels = Vector(1000L, 5000L)
  private val quick = StoreFixture.small ++ Map("flushDiskType" -> "ASYNC_FLUSH")

  private final class World(
      opened: StoreFixture#Opened,
      clock: ManualClock,
      levelFile: MemoryFile = new MemoryFile(),
      timerFile: MemoryFile = new MemoryFile()
  ) {
    Seq("t", Names.ScheduleTopic, Names.TimerTopic).foreach { topic =>
      opened.store.topics.put(TopicConfig(topic, 2, 2))
    }
    private var level = new LevelDelivery(opened.store, levels, levelFile, clock)
    private var timer = new TimerDelivery(opened.store, timerFile, clock, 1000)
    private val planner = new DelayPlanner(DelayLimits(levels, 20000L), clock, () => timer.hasRoom)
    val due = mutable.LinkedHashMap.empty[String, Long]

    /** Sends a message to `t` and notes when it may come. */
    def send(name: String, property: String, value: Long, delay: Long): Unit = {
      val placed = planner
        .place(QueueKey("t", 0), VectorMap(property -> value.toString))
        .getOrElse(fail("refused"))
      due(name) = clock.wallMillis() + delay
      val content = new RecordContent(
        0,
        Slice(name.getBytes),
        Slice(MessageProperties.encode(placed.properties).getBytes)
      )
      val envelope = StoreFixture.envelope(placed.queue.topic, placed.queue.queueId)
      opened.store.append(envelope, Vector(content))(_ => ())
    }

    def run(): Unit = {
      level.run()
      timer.run()
    }

    def flush(isBroken: Boolean): Unit = {
      levelFile.isBroken = isBroken
      timerFile.isBroken = isBroken
      level.flush()
      timer.flush()
      levelFile.isBroken = false
      timerFile.isBroken = false
    }

    def crash(): Unit = {
      level = new LevelDelivery(opened.store, levels, levelFile, clock)
      timer = new TimerDelivery(opened.store, timerFile, clock, 1000)
    }

    def came: Seq[String] = opened.bodies("t", 0)
  }

  private def play(seed: Int, crashes: Boolean): Unit = {
    val random = new Random(seed)
    val fixture = new StoreFixture(StoreFixture.temporaryFolder(), quick)
    fixture.use { opened =>
      val world = new World(opened, fixture.clock)
      var seen = 0
      (1 to 120).foreach { step =>
        random.nextInt(8) match {
          case 0 | 1 =>
            val delay = 1L + random.nextInt(15000)
            world.send(s"timer $step", MessageProperties.TimerDelayMs, delay, delay)
          case 2 =>
            val wanted = 1 + random.nextInt(levels.length)
            world.send(s"level $step", MessageProperties.Delay, wanted.toLong, levels(wanted - 1))
          case 3 => world.flush(isBroken = random.nextInt(3) == 0)
          case 4 if crashes && random.nextInt(3) == 0 => world.crash()
          case _ => fixture.clock.advance(random.nextInt(1500).toLong)
        }
        world.run()
        val came = world.came
        came.drop(seen).foreach { name =>
          assert(fixture.clock.wallMillis() >= world.due(name), s"$name was early, seed $seed")
        }
        seen = came.length
      }
      fixture.clock.advance(20000)
      Eventually { world.run(); world.due.keySet.forall(world.came.toSet) }
      assertEquals(world.came.toSet, world.due.keySet.toSet, s"seed $seed")
      if (!crashes) assertEquals(world.came.length, world.due.size, s"seed $seed")
    }
  }

  test("without crashes every message comes exactly once, none early") {
    (1 to 8).foreach(play(_, crashes = false))
  }

  test("with crashes every message comes at least once, none early") {
    (1 to 8).foreach(play(_, crashes = true))
  }

  test("a timer that was set back repeats nothing that is recorded and loses nothing that is new") {
    val fixture = new StoreFixture(StoreFixture.temporaryFolder(), quick)
    fixture.use { opened =>
      val world = new World(opened, fixture.clock)
      world.send("before", MessageProperties.TimerDelayMs, 1000, 1000)
      fixture.clock.advance(5000)
      world.run()
      world.flush(isBroken = false)
      fixture.clock.setBack(5000)
      world.send("after", MessageProperties.TimerDelayMs, 500, 500)
      world.run()
      world.flush(isBroken = false)
      world.crash()
      world.run()
      assertEquals(world.came, Seq("before"))
      fixture.clock.advance(500)
      world.run()
      assertEquals(world.came, Seq("before", "after"))
    }
  }

  test("progress beyond the end of a log that lost its end hides no new message") {
    val fixture = new StoreFixture(StoreFixture.temporaryFolder(), quick)
    fixture.use { opened =>
      val far = fixture.clock.wallMillis() + 100000
      val levelFile = new MemoryFile(Some("""{"offsetTable":{"1":50}}"""))
      val timerFile = new MemoryFile(
        Some(s"""{"deliveredUpTo":$far,"scannedTo":50,"firstPending":50}""")
      )
      val world = new World(opened, fixture.clock, levelFile, timerFile)
      world.send("timer", MessageProperties.TimerDelayMs, 1, 1)
      world.send("level", MessageProperties.Delay, 1, 1000)
      fixture.clock.advance(1000)
      world.run()
      assertEquals(world.came.toSet, Set("timer", "level"))
    }
  }

  test("after a crash what waited before the checkpoint comes, without being read again") {
    val fixture = new StoreFixture(StoreFixture.temporaryFolder())
    val (crashed, _) = fixture.crash { opened =>
      val world = new World(opened, fixture.clock)
      world.send("timer", MessageProperties.TimerDelayMs, 1000, 1000)
      world.send("level", MessageProperties.Delay, 1, 1000)
      Eventually { opened.store.maxOffset(QueueKey(Names.ScheduleTopic, 0)) == 1 }
      opened.store.checkpoint()
      world.send("behind it", MessageProperties.Delay, 1, 1000)
      Eventually { opened.store.maxOffset(QueueKey(Names.ScheduleTopic, 0)) == 2 }
    }
    crashed.use { opened =>
      assertEquals(opened.store.scannedRecords, 1L)
      val world = new World(opened, crashed.clock)
      world.run()
      assertEquals(world.came, Nil)
      crashed.clock.advance(1000)
      Eventually { world.run(); world.came.length == 3 }
      assertEquals(world.came.toSet, Set("timer", "level", "behind it"))
    }
  }

  test("while the store takes nothing the messages wait on") {
    val fixture = new StoreFixture(StoreFixture.temporaryFolder())
    val (levelFile, timerFile) = (new MemoryFile(), new MemoryFile())
    val opened = fixture.open()
    val world = new World(opened, fixture.clock, levelFile, timerFile)
    world.send("timer", MessageProperties.TimerDelayMs, 1, 1)
    world.send("level", MessageProperties.Delay, 1, 1000)
    Eventually { opened.store.maxOffset(QueueKey(Names.ScheduleTopic, 0)) == 1 }
    opened.store.close()
    fixture.clock.advance(1000)
    world.run()
    world.flush(isBroken = false)
    assertEquals(world.came, Nil)
    opened.close()
    fixture.use { again =>
      val later = new World(again, fixture.clock, levelFile, timerFile)
      Eventually { later.run(); later.came.length == 2 }
      assertEquals(later.came.toSet, Set("timer", "level"))
    }
  }
}
