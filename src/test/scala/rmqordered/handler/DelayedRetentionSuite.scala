package rmqordered.handler

import java.nio.file.Path

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.RequestCode
import rmqordered.store.StoreFixture
import rmqordered.util.Eventually

/** Retention and messages that still wait for their time. */
class DelayedRetentionSuite extends munit.FunSuite {
  private val hourMs = 3600000L
  private val settings = Map(
    "mappedFileSizeCommitLog" -> "70000",
    "maxMessageSize" -> "4096",
    "maxCommitLogBytes" -> "140000",
    "fileReservedTime" -> "1"
  )

  private def withBroker(folder: Path = StoreFixture.temporaryFolder())(
      body: TestBroker => Unit
  ): Path = {
    val broker = new TestBroker(folder, settings)
    try body(broker)
    finally broker.close()
    folder
  }

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    Seq("t", "filler").foreach(client.createTopic(_, 1))
    client
  }

  // Some six files.
  private def fill(client: TestClient): Unit =
    (1 to 120).foreach(i => assertEquals(client.send("filler", 0, "x" * 3000).code, 0, s"send $i"))

  private def keptFrom(client: TestClient): Long =
    client
      .call(RequestCode.GetMinOffset, "topic" -> "filler", "queueId" -> "0")
      .ext("offset")
      .get
      .toLong

  private def delivered(client: TestClient): Seq[String] = {
    client.request(RequestCode.PullMessage, pullFields("t", 0, 0))
    bodies(client.receive())
  }

  private def comes(b: TestBroker, client: TestClient, body: String): Unit =
    Eventually {
      b.tick()
      delivered(client) == Seq(body)
    }

  Seq("a delay level" -> "DELAY\u000118\u0002", "a time" -> "TIMER_DELAY_SEC\u00017200\u0002")
    .foreach { case (name, property) =>
      test(s"a message that waits with $name outlives any limit, and its files go after it") {
        withBroker() { b =>
          val client = ready(b)
          client.send("t", 0, "late", property)
          fill(client)
          b.tick()
          assertEquals(keptFrom(client), 0L, "nothing behind it may go")
          b.clock.advance(2 * hourMs - 1)
          b.tick()
          assertEquals((keptFrom(client), delivered(client)), (0L, Seq.empty[String]))
          b.clock.advance(1)
          comes(b, client, "late")
          b.tick()
          assert(keptFrom(client) > 0, "nobody waits any more")
        }
      }
    }

  test("messages that wait are kept over a restart".proves("retention")) {
    val folder = withBroker() { b =>
      val client = ready(b)
      client.send("t", 0, "late", "TIMER_DELAY_SEC\u00017200\u0002")
      fill(client)
    }
    withBroker(folder) { b =>
      val client = b.connect()
      b.tick()
      assertEquals(keptFrom(client), 0L)
      b.clock.advance(2 * hourMs)
      comes(b, client, "late")
    }
  }

  test("files before the oldest waiting message go as ever") {
    withBroker() { b =>
      val client = ready(b)
      fill(client)
      client.send("t", 0, "late", "DELAY\u000118\u0002")
      b.tick()
      val kept = keptFrom(client)
      assert(kept > 0 && kept < 120, s"kept from $kept")
      b.clock.advance(2 * hourMs)
      comes(b, client, "late")
    }
  }
}
