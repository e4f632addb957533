package rmqordered.schedule

import scala.collection.immutable.VectorMap

import rmqordered.model.{Names, QueueKey, TopicConfig}
import rmqordered.protocol.{MessageProperties, RecordContent, Slice}
import rmqordered.store.StoreFixture
import rmqordered.util.{Eventually, MemoryFile}

/**
 * A power failure took the end of the log, and the recorded progress says more than there is. The
 * messages that come next get the same offsets: they must be delivered, also when the broker is
 * killed again before it has recorded anything.
 */
class LostProgressSuite extends munit.FunSuite {
  private val levels = Vector(1000L)
  private val quick = StoreFixture.small ++ Map("flushDiskType" -> "ASYNC_FLUSH")

  private def play(property: String, value: String)(start: StoreFixture#Opened => () => Unit) = {
    val fixture = new StoreFixture(StoreFixture.temporaryFolder(), quick)
    fixture.use { opened =>
      Seq("t", Names.ScheduleTopic, Names.TimerTopic).foreach(name =>
        opened.store.topics.put(TopicConfig(name, 1, 1))
      )
      // Killed again and again, with a few messages more each time.
      val sent = (0 until 6).map { i =>
        start(opened)
        send(opened, fixture, s"message $i", VectorMap(property -> value))
        s"message $i"
      }
      val run = start(opened)
      fixture.clock.advance(1000)
      Eventually {
        run()
        opened.bodies("t", 0).length >= sent.length
      }
      assertEquals(opened.bodies("t", 0), sent)
    }
  }

  private def send(
      opened: StoreFixture#Opened,
      fixture: StoreFixture,
      body: String,
      properties: VectorMap[String, String]
  ): Unit = {
    val planner = new DelayPlanner(DelayLimits(levels, 20000L), fixture.clock, () => true)
    val placed = planner.place(QueueKey("t", 0), properties).fold(fail(_), identity)
    val encoded = Slice(MessageProperties.encode(placed.properties).getBytes)
    val envelope = StoreFixture.envelope(placed.queue.topic, placed.queue.queueId)
    opened.store.append(envelope, Vector(new RecordContent(0, Slice(body.getBytes), encoded)))(_ =>
      ()
    )
  }

  test("a level's messages at offsets that were delivered once are delivered") {
    val file = new MemoryFile(Some("""{"offsetTable":{"1":4}}"""))
    play(MessageProperties.Delay, "1") { opened =>
      val clock = new rmqordered.util.ManualClock()
      clock.advance(1000)
      val delivery = new LevelDelivery(opened.store, levels, file, clock)
      () => delivery.run()
    }
  }

  test("messages with a time of their own at offsets that were delivered once are delivered") {
    val until = 1700000099999L
    val done = s"""{"deliveredUpTo":$until,"firstPending":4,"scannedTo":4}"""
    val file = new MemoryFile(Some(done))
    play(MessageProperties.TimerDelayMs, "500") { opened =>
      val clock = new rmqordered.util.ManualClock()
      clock.advance(1000)
      val delivery = new TimerDelivery(opened.store, file, clock, 1000)
      () => delivery.run()
    }
  }
}
