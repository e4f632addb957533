package rmqordered.store

import java.util.concurrent.{CountDownLatch, TimeUnit}

import rmqordered.Proves._
import rmqordered.model.{QueueKey, TagFilter, TopicConfig}
import rmqordered.protocol.{RecordContent, Slice}
import rmqordered.store.StoreFixture._
import rmqordered.util.WorkTurn

class MessageStoreSuite extends munit.FunSuite {
  private val fixture = FunFixture[StoreFixture](
    setup = { _ =>
      val made = new StoreFixture(temporaryFolder())
      made.use(_.store.topics.put(topic))
      made
    },
    teardown = _ => ()
  )
  private val key = QueueKey("orders", 1)

  private def read(
      opened: StoreFixture#Opened,
      start: Long,
      limits: ReadLimits = ReadLimits(32, 1 << 20, 800)
  ) =
    opened.store.read(key, ReadRequest(start, limits, TagFilter.Everything))

  fixture.test("messages come back in the order of their offsets, each queue on its own") { f =>
    f.use { opened =>
      (0 until 50).foreach(i => opened.append("orders", i % 2, s"m$i"))
      assertEquals(opened.bodies("orders", 0), (0 until 50 by 2).map(i => s"m$i"))
      assertEquals(opened.bodies("orders", 1), (1 until 50 by 2).map(i => s"m$i"))
      assertEquals(records(read(opened, 0)).map(_.position.queueOffset), (0L until 25L))
    }
  }

  fixture.test("an append says where its messages are") { f =>
    f.use { opened =>
      opened.append("orders", 1, "a") match {
        case AppendOutcome.Stored(queueOffset, offsets) =>
          assertEquals((queueOffset, offsets.toSeq), (0L, Seq(0L)))
        case other => fail(s"not stored: $other")
      }
      opened.append("orders", 1, "b", "c") match {
        case AppendOutcome.Stored(queueOffset, offsets) =>
          assertEquals((queueOffset, offsets.length), (1L, 2))
          assert(offsets(1) > offsets(0))
        case other => fail(s"not stored: $other")
      }
      assertEquals(f.arrivals, Vector(key, key))
    }
  }

  fixture.test("every place of an offset outside the messages has its status") { f =>
    f.use { opened =>
      def status(start: Long) = {
        val result = read(opened, start)
        (result.status, result.nextOffset)
      }
      assertEquals(status(0), (ReadStatus.NoMessageInQueue, 0L))
      assertEquals(status(7), (ReadStatus.NoMessageInQueue, 0L))
      opened.append("orders", 1, "a", "b", "c")
      assertEquals(status(3), (ReadStatus.OffsetOverflowOne, 3L))
      assertEquals(status(4), (ReadStatus.OffsetOverflowBadly, 3L))
      assertEquals(status(-1), (ReadStatus.OffsetTooSmall, 0L))
      assertEquals(status(2), (ReadStatus.Found, 3L))
    }
  }

  fixture.test("count and byte limits hold, but the first message always comes") { f =>
    f.use { opened =>
      opened.append("orders", 1, (0 until 10).map(i => s"message $i"): _*)
      assertEquals(read(opened, 0, ReadLimits(3, 1 << 20, 800)).nextOffset, 3L)
      val size = records(read(opened, 0)).head.size
      assertEquals(read(opened, 0, ReadLimits(32, 2 * size, 800)).messages.messageCount, 2)
      assertEquals(read(opened, 5, ReadLimits(32, 1, 800)).messages.messageCount, 1)
    }
  }

  fixture.test("a filter passes over what does not match and counts it as read") { f =>
    f.use { opened =>
      val contents = Vector(content("a", "A"), content("b", "B"), content("c"), content("d", "A"))
      opened.store.append(envelope("orders", 1), contents)(_ => ())
      opened.append("orders", 1, "last")
      def pull(start: Long, maxScan: Int) =
        opened.store.read(
          key,
          ReadRequest(start, ReadLimits(32, 1 << 20, maxScan), TagFilter.parse("A"))
        )
      val all = pull(0, 800)
      assertEquals(records(all).map(_.position.queueOffset), Seq(0L, 3L))
      assertEquals(all.nextOffset, 5L)
      val nothing = pull(1, 2)
      assertEquals((nothing.status, nothing.nextOffset), (ReadStatus.NoMatchedMessage, 3L))
      def search(end: Long) =
        opened.store.search(key, 1, end, TagFilter.parse("A"), WorkTurn.endless())
      assert(search(5).isFound)
      assertEquals(search(3), QueueSearch(isFound = false, next = 3))
    }
  }

  fixture.test("a restart keeps everything and goes on after it, over many files") { f =>
    val sent = (0 until 900).map(i => s"message number $i")
    f.use(opened => sent.take(600).foreach(body => opened.append("orders", 1, body)))
    f.use { opened =>
      assertEquals(opened.bodies("orders", 1), sent.take(600))
      sent.drop(600).foreach(body => opened.append("orders", 1, body))
    }
    f.use(opened => assertEquals(opened.bodies("orders", 1), sent))
    assert(MappedSegment.list(DiskFiles, f.folder.resolve("commitlog")).length > 1, "one file only")
  }

  fixture.test("a topic deleted and made again starts at 0, after a restart too") { f =>
    f.use { opened =>
      opened.append("orders", 1, "old 1", "old 2")
      opened.store.deleteTopic("orders")
      assertEquals(opened.bodies("orders", 1), Nil)
      opened.store.topics.put(topic)
      opened.append("orders", 1, "new")
      assertEquals(opened.bodies("orders", 1), Seq("new"))
    }
    f.use(opened => assertEquals(opened.bodies("orders", 1), Seq("new")))
  }

  fixture.test("messages of a deleted topic stay dead after a restart") { f =>
    f.use { opened =>
      opened.append("orders", 1, "old")
      opened.store.topics.put(TopicConfig("other", 1, 1))
      opened.store.deleteTopic("orders")
    }
    f.use { opened =>
      assertEquals(opened.store.maxOffset(key), 0L)
      opened.append("other", 0, "x")
      assertEquals(opened.bodies("other", 0), Seq("x"))
    }
  }

  fixture.test("a timestamp finds the first message at or after it, or the last at or before it") {
    f =>
      f.use { opened =>
        val start = f.clock.wallMillis()
        (0 until 5).foreach { i =>
          opened.append("orders", 1, s"m$i")
          f.clock.advance(10)
        }
        def lower(at: Long) = opened.store.offsetByTime(key, start + at, TimeBoundary.Lower)
        def upper(at: Long) = opened.store.offsetByTime(key, start + at, TimeBoundary.Upper)
        assertEquals(Seq(-5L, 0L, 5L, 10L, 40L, 41L).map(lower), Seq(0L, 0L, 1L, 1L, 4L, 5L))
        assertEquals(Seq(-5L, 0L, 5L, 10L, 40L, 99L).map(upper), Seq(0L, 0L, 0L, 1L, 4L, 4L))
        assertEquals(opened.store.storeTimestamp(key, 2), Some(start + 20))
        assertEquals(opened.store.storeTimestamp(key, 5), None)
        assertEquals(
          opened.store.offsetByTime(QueueKey("orders", 3), start, TimeBoundary.Lower),
          0L
        )
      }
  }

  fixture.test("store times do not go back when the machine's clock does") { f =>
    f.use { opened =>
      opened.append("orders", 1, "a")
      f.clock.advance(-5000)
      opened.append("orders", 1, "b")
      val times = records(read(opened, 0)).map(_.position.storeTimestamp)
      assertEquals(times, times.sorted)
    }
  }

  fixture.test("an append larger than a file is refused") { f =>
    f.use { opened =>
      val tooMuch: Vector[RecordContent] = Vector.fill(100)(content("x" * 1000))
      var outcome: Option[AppendOutcome] = None
      opened.store.append(envelope("orders", 1), tooMuch)(o => outcome = Some(o))
      assert(outcome.exists(_.isInstanceOf[AppendOutcome.TooLarge]), s"$outcome")
    }
  }

  fixture.test(
    "properties that a record cannot hold are refused, and nothing of the append lands"
  ) {
    f =>
      f.use { opened =>
        def full(bytes: Int) = {
          val body = Slice("x".getBytes)
          new RecordContent(0, body, Slice(Array.fill[Byte](bytes)('p')))
        }
        var outcomes = Vector.empty[AppendOutcome]
        def append(contents: RecordContent*): Unit = {
          val done = new CountDownLatch(1)
          opened.store.append(envelope("orders", 1), contents.toVector) { outcome =>
            outcomes :+= outcome
            done.countDown()
          }
          assert(done.await(10, TimeUnit.SECONDS))
        }
        append(content("a"), full(32768))
        append(full(32767))
        assertEquals(outcomes.head, AppendOutcome.PropertiesTooLong(32768, 32767): AppendOutcome)
        assert(outcomes(1).isInstanceOf[AppendOutcome.Stored], s"${outcomes(1)}")
      }
      assertEquals(f.use(_.bodies("orders", 1)), Seq("x"))
  }

  fixture.test("a topic that is deleted between the check and the append gets nothing more".proves(
    "deleted-topic-never-returns"
  )) { f =>
    f.use { opened =>
      opened.append("orders", 1, "old")
      opened.store.deleteTopic("orders")
      // As a sender that has looked the topic up before the deletion.
      assertEquals(
        opened.append("orders", 1, "late"),
        AppendOutcome.NoTopic("orders"): AppendOutcome
      )
    }
    f.use { opened =>
      opened.store.topics.put(topic)
      opened.append("orders", 1, "new")
    }
    // The queues are made anew from the log alone.
    StoreFixture.deleteTree(f.folder.resolve("consumequeue"))
    assertEquals(f.use(_.bodies("orders", 1)), Seq("new"))
  }

  fixture.test("a closed store refuses appends") { f =>
    val opened = f.open()
    opened.close()
    assert(opened.append("orders", 1, "late").isInstanceOf[AppendOutcome.Unavailable])
  }
}
