package rmqordered.store

import java.util.concurrent.{CountDownLatch, TimeUnit}

import rmqordered.Proves._
import rmqordered.config.FlushDiskType
import rmqordered.model.QueueKey
import rmqordered.store.StoreFixture._

class GroupCommitSuite extends munit.FunSuite {

  test("concurrent appends are all stored, each once, and offsets stay dense") {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      val done = new CountDownLatch(400)
      val threads = (0 until 4).map { t =>
        new Thread(() =>
          (0 until 100).foreach { i =>
            opened.store.append(envelope("orders", t % 2), Vector(content(s"$t-$i"))) { _ =>
              done.countDown()
            }
          }
        )
      }
      threads.foreach(_.start())
      assert(done.await(20, TimeUnit.SECONDS), "appends were not acknowledged")
      val found = opened.bodies("orders", 0) ++ opened.bodies("orders", 1)
      assertEquals(found.toSet.size, 400)
      (0 until 4).foreach { t =>
        val mine = opened.bodies("orders", t % 2).filter(_.startsWith(s"$t-"))
        assertEquals(mine, (0 until 100).map(i => s"$t-$i"))
      }
    }
  }

  test("with synchronous flush a message is readable when it is acknowledged") {
    val fixture = new StoreFixture(temporaryFolder())
    fixture.use { opened =>
      opened.store.topics.put(topic)
      val visible = new java.util.concurrent.atomic.AtomicLong(-1)
      val done = new CountDownLatch(1)
      opened.store.append(envelope("orders", 0), Vector(content("a"))) { _ =>
        visible.set(opened.store.maxOffset(QueueKey("orders", 0)))
        done.countDown()
      }
      assert(done.await(10, TimeUnit.SECONDS))
      assertEquals(visible.get(), 1L)
    }
  }

  test("with asynchronous flush an append is acknowledged at once and survives a close") {
    val fixture = new StoreFixture(temporaryFolder(), small + ("flushDiskType" -> "ASYNC_FLUSH"))
    fixture.use { opened =>
      opened.store.topics.put(topic)
      var acknowledged = false
      opened.store.append(envelope("orders", 0), Vector(content("a")))(_ => acknowledged = true)
      assert(acknowledged)
    }
    fixture.use(opened => assertEquals(opened.bodies("orders", 0), Seq("a")))
  }

  test("after a close nothing is promised any more") {
    val log =
      new CommitLog(
        DiskFiles,
        temporaryFolder(),
        70000,
        RecoveredLog(Vector.empty, 0, 0L, 0L),
        0L,
        7
      )
    val commit = new GroupCommit(log, FlushDiskType.Sync, 10)
    commit.close()
    var failure: Option[Throwable] = None
    commit.whenDurable(error => failure = error)
    assert(failure.isDefined)
  }

  test(
    "a waiter that fails in whatever way costs nobody else an answer".proves("filter-costs-its-own")
  ) {
    val log =
      new CommitLog(
        DiskFiles,
        temporaryFolder(),
        70000,
        RecoveredLog(Vector.empty, 0, 0L, 0L),
        0L,
        7
      )
    val commit = new GroupCommit(log, FlushDiskType.Sync, 10)
    val failures = Seq(
      new IllegalStateException("broken"),
      new StackOverflowError("too deep"),
      new NoClassDefFoundError("gone"),
      new InterruptedException("leave"),
      new OutOfMemoryError("no buffer")
    )
    val answered = new CountDownLatch(failures.length)
    failures.foreach { failure =>
      commit.whenDurable(_ => throw failure)
      commit.whenDurable(_ => answered.countDown())
    }
    assert(answered.await(10, TimeUnit.SECONDS), s"${answered.getCount} were not answered")
    commit.close()
  }
}
