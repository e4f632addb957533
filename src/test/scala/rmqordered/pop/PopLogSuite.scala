package rmqordered.pop

import rmqordered.model.{QueueKey, TopicConfig}
import rmqordered.offset.OffsetKey
import rmqordered.store.StoreFixture
import rmqordered.util.MemoryFile

class PopLogSuite extends munit.FunSuite {
  private val key = OffsetKey("g", QueueKey("t", 0))

  test("pops of messages that the log lost are taken back for good, not only until a kill") {
    val file = new MemoryFile()
    val table = new PopTable
    table.under(key)(_.skipTo(10L))
    new PopFollower(table, file).snapshot(0L)()
    new StoreFixture(StoreFixture.temporaryFolder()).use { opened =>
      opened.store.topics.put(TopicConfig("t", 1, 1))
      opened.append("t", 0, (0 until 4).map(i => s"m$i"): _*)
      def start(): PopTable = {
        val started = new PopTable
        new PopFollower(started, file).clampTo(opened.store)
        started
      }
      assertEquals(start().under(key)(_.state.next), Some(4L))
      // Others get the offsets, and nothing was recorded since.
      opened.append("t", 0, (4 until 10).map(i => s"m$i"): _*)
      assertEquals(start().under(key)(_.state.next), Some(4L))
      assertEquals(file.replacements, 2)
    }
  }
}
