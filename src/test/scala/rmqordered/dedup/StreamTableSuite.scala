package rmqordered.dedup

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.locks.ReentrantLock

import scala.util.Random

import rmqordered.model.QueueKey

class StreamTableSuite extends munit.FunSuite {
  private def key(n: Int): StreamKey = StreamKey(QueueKey(s"topic-${n % 3}", 0), "s", n.toLong)

  private def stamp(n: Long): LastStamp = LastStamp(1L, n, n, n, n, 0L)

  private def filled(count: Int): StreamTable = {
    val table = new StreamTable
    (0 until count).foreach(n => table.put(key(n), stamp(n.toLong)))
    table
  }

  test("a picture shows the moment of the freeze, whatever changed since") {
    val table = filled(5)
    val picture = table.freeze()
    table.put(key(1), stamp(100L))
    table.put(key(1), stamp(101L))
    table.put(key(9), stamp(9L))
    table.removeIf((_, last) => last.sequence == 2L)
    table.put(key(2), stamp(200L))
    table.removeIf((found, _) => found == key(3))
    assertEquals(picture().toMap, (0 until 5).map(n => key(n) -> stamp(n.toLong)).toMap)
    assertEquals(table.get(key(1)), Some(stamp(101L)))
    assertEquals(table.get(key(3)), None)
    assertEquals(table.size, 5)
  }

  test("a picture has every stream once") {
    val table = filled(5)
    val picture = table.freeze()
    (0 until 5).foreach(n => table.put(key(n), stamp(50L + n)))
    assertEquals(picture().map(_._1).toSet.size, 5)
    val next = table.freeze()
    assertEquals(next().map(_._2.sequence).sorted, (50L until 55L).toVector)
  }

  test("a picture that a later freeze has replaced is refused, and so is a second one") {
    val table = filled(1)
    val (old, young) = (table.freeze(), table.freeze())
    intercept[IllegalStateException](old())
    assertEquals(young().length, 1)
    intercept[IllegalStateException](young())
  }

  test("pictures made while a writer goes on show the moment of their freeze") {
    val table = filled(2000)
    // Fair, or the writer could keep the pictures waiting for as long as it likes.
    val lock = new ReentrantLock(true)
    whileWriting { random =>
      locked(lock) {
        val n = random.nextInt(3000)
        if (random.nextInt(4) == 0) table.removeIf((found, _) => found == key(n))
        else table.put(key(n), stamp(random.nextInt(1000000).toLong))
      }
    } {
      (0 until 50).foreach { _ =>
        val (expected, picture) = locked(lock) {
          val now = (0 until 3000).flatMap(n => table.get(key(n)).map(key(n) -> _)).toMap
          (now, table.freeze())
        }
        val found = picture()
        assertEquals(found.length, expected.size)
        assert(found.toMap == expected, "the picture shows something that came later")
      }
    }
  }

  test("a change in the very moment of the picture shows no stream twice") {
    val table = filled(8)
    val lock = new ReentrantLock(true)
    whileWriting { random =>
      locked(lock)(table.put(key(random.nextInt(8)), stamp(random.nextInt(1000).toLong)))
    } {
      (0 until 20000).foreach { _ =>
        val picture = locked(lock)(table.freeze())
        assertEquals(picture().length, 8)
      }
    }
  }

  private def locked[A](lock: ReentrantLock)(body: => A): A = {
    lock.lock()
    try body
    finally lock.unlock()
  }

  private def whileWriting(change: Random => Unit)(body: => Unit): Unit = {
    val stop = new AtomicBoolean(false)
    val writer = new Thread(() => {
      val random = new Random(7L)
      while (!stop.get()) change(random)
    })
    writer.start()
    try body
    finally {
      stop.set(true)
      writer.join()
    }
  }
}
