package rmqordered.store

import java.util.concurrent.{Semaphore, TimeUnit}

import rmqordered.dedup.{SendStreams, StampedRequest}
import rmqordered.model.QueueKey
import rmqordered.protocol.RecordContent
import rmqordered.store.StoreFixture._
import rmqordered.util.MemoryFile

/**
 * How fast appends become durable. Runs with -Drmqordered.speed=true; asserts only that all
 * arrived.
 */
class StoreSpeedSuite extends munit.FunSuite {
  private val isOn = java.lang.Boolean.getBoolean("rmqordered.speed")
  // So many sends wait for an answer at once, as from that many producers.
  private val InFlight = 64

  override def munitTimeout: scala.concurrent.duration.Duration =
    scala.concurrent.duration.Duration(10, TimeUnit.MINUTES)

  Seq("SYNC_FLUSH" -> 20000, "ASYNC_FLUSH" -> 400000).foreach { case (mode, singles) =>
    test(s"appends with $mode") {
      assume(isOn, "switched off")
      measure(mode, s"single 100 B messages, $InFlight in flight", singles, 1, 100, InFlight)
      measure(mode, "single 100 B messages, 1 in flight", singles / 10, 1, 100, 1)
      measure(mode, "batches of 1,000 x 100 B, 4 in flight", 1000000, 1000, 100, 4)
      measure(mode, "batches of 300 x 1 KiB, 4 in flight", 300000, 300, 1024, 4)
    }
  }

  test("a checkpoint of 200,000 send streams, under the append lock") {
    assume(isOn, "switched off")
    val streams = new SendStreams(new MemoryFile(), 200000)
    (0 until 200000).foreach { n =>
      val queue = QueueKey(s"orders-${n % 50}", n % 8)
      val request = StampedRequest("sink", n.toLong, 1L, 0L, Vector(n.toLong))
      streams.landed(queue, request, 0, n.toLong, Array(n * 300L))
    }
    val times = (0 until 20).map { _ =>
      val start = System.nanoTime()
      val save = streams.freeze(60000000L)
      val held = System.nanoTime() - start
      streams.save(save)
      held / 1e6
    }
    println(f"held for ${times.head}%.2f ms at first, ${times.sorted.apply(10)}%.2f ms usually")
    assertEquals(streams.size, 200000)
  }

  private def measure(
      mode: String,
      what: String,
      total: Int,
      batch: Int,
      bytes: Int,
      inFlight: Int
  ): Unit = {
    val folder = temporaryFolder()
    val fixture = new StoreFixture(folder, Map("flushDiskType" -> mode))
    fixture.use { opened =>
      opened.store.topics.put(topic)
      val contents: Vector[RecordContent] = Vector.tabulate(batch) { i =>
        val properties = f"UNIQ_KEY\u00017F000001${i}%024d\u0002KEYS\u0001key-$i\u0002"
        new RecordContent(
          0,
          rmqordered.protocol.Slice(Array.fill[Byte](bytes)(i.toByte)),
          rmqordered.protocol.Slice(properties.getBytes("UTF-8"))
        )
      }
      val slots = new Semaphore(inFlight)
      val processor = java.lang.management.ManagementFactory.getThreadMXBean
      val (start, startCpu) = (System.nanoTime(), processor.getCurrentThreadCpuTime)
      (0 until total / batch).foreach { n =>
        slots.acquire()
        opened.store.append(envelope("orders", n % 4), contents)(_ => slots.release())
      }
      assert(slots.tryAcquire(inFlight, 60, TimeUnit.SECONDS))
      val seconds = (System.nanoTime() - start) / 1e9
      // The sender's own processor time tells more than the clock on a busy machine.
      val cpuNanos = (processor.getCurrentThreadCpuTime - startCpu) / total
      val speed = total / seconds
      println(f"$mode%-12s $what%-42s $speed%,12.0f messages/s, $cpuNanos%,6d ns to append one")
      assertEquals(
        (0 until 4).map(q => opened.store.maxOffset(rmqordered.model.QueueKey("orders", q))).sum,
        total.toLong
      )
    }
    val reopened = System.nanoTime()
    fixture.use(_ => ())
    println(
      f"$mode%-12s ${"open again after a clean stop"}%-42s ${(System.nanoTime() - reopened) / 1e6}%,12.0f ms"
    )
    StoreSpeedSuite.delete(folder)
  }
}

object StoreSpeedSuite {
  private def delete(root: java.nio.file.Path): Unit = {
    val paths = java.nio.file.Files.walk(root)
    try paths.sorted(java.util.Comparator.reverseOrder[java.nio.file.Path]()).forEach(p =>
        java.nio.file.Files.delete(p)
      )
    finally paths.close()
  }
}
