package rmqordered.handler

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.util.Random

import rmqordered.Proves._
import rmqordered.store.StoreFixture
import rmqordered.util.ManualClock

/**
 * Pops, acknowledgements, time-outs, restarts and kills in any order, on a clock moved by hand,
 * against what was promised. A failure names its seed.
 */
class PopModelSuite extends munit.FunSuite {
  private val Invisible = 5000L

  override def munitTimeout: scala.concurrent.duration.Duration =
    scala.concurrent.duration.Duration(10, java.util.concurrent.TimeUnit.MINUTES)

  test("every message is delivered until it is acknowledged, and then never again".proves(
    "pop-until-acked"
  )) {
    (1 to 40).foreach(seed => new Plain(seed).play())
  }

  test(
    "an orderly pop never goes on before what it handed out is settled".proves("pop-orderly-waits")
  ) {
    (1 to 40).foreach(seed => new Orderly(seed).play())
  }

  /** A broker that is stopped or killed and comes back. */
  private abstract class Run(seed: Int) {
    protected val random = new Random(seed)
    protected val clock = new ManualClock()
    // A killed process loses nothing that way, only a machine does: see PopCrashSuite.
    private val settings = Map("flushDiskType" -> "ASYNC_FLUSH")
    private var folder = StoreFixture.temporaryFolder()
    private var broker = new TestBroker(folder, settings, clock = clock)
    private var client = broker.connect()
    protected var sent = 0
    protected val acked = mutable.Set.empty[String]
    client.createTopic("t", 2)

    protected def popper: Popper = new Popper(client, "t")

    protected def clue: String = s"seed $seed, message $sent"

    protected def send(queues: Int): Unit = {
      sent += 1
      val _ = client.send("t", random.nextInt(queues), s"m$sent")
    }

    protected def elapse(millis: Long): Unit = {
      clock.advance(millis)
      broker.tick(200L)
    }

    /** A stop, or what kill -9 leaves: the files as they are. */
    protected def restart(): Unit = {
      val isKilled = random.nextBoolean()
      if (random.nextBoolean()) broker.tick()
      val copy = StoreFixture.temporaryFolder()
      if (isKilled) copyTree(folder, copy)
      broker.close()
      if (isKilled) folder = copy
      broker = new TestBroker(folder, settings, clock = clock)
      client = broker.connect()
    }

    private def copyTree(from: Path, to: Path): Unit = {
      val paths = Files.walk(from)
      try
        paths.forEach { path =>
          val target = to.resolve(from.relativize(path).toString)
          if (Files.isDirectory(path)) { val _ = Files.createDirectories(target) }
          else { val _ = Files.copy(path, target) }
        }
      finally paths.close()
    }

    protected def close(): Unit = broker.close()
  }

  private final class Plain(seed: Int) extends Run(seed) {
    private val out = mutable.Map.empty[String, (Popped, Long)]
    // Acknowledged when their time was over: they may come again, or not.
    private val late = mutable.Set.empty[String]

    def play(): Unit = {
      (1 to 60).foreach(_ => step())
      finish()
      close()
    }

    private def step(): Unit = random.nextInt(12) match {
      case 0 | 1 | 2 => send(2)
      case 3 | 4 | 5 => pop(1 + random.nextInt(4))
      case 6 | 7 => someOut.foreach(ack)
      case 8 => someOut.foreach(change)
      case 9 => elapse(random.nextInt(Invisible.toInt).toLong)
      case 10 if random.nextInt(3) == 0 => elapse(2 * Invisible)
      case 11 if random.nextInt(3) == 0 => restart()
      case _ => ackTogether()
    }

    private def someOut: Option[Popped] =
      random.shuffle(out.values.map(_._1).toVector.sortBy(_.body)).headOption

    private def pop(count: Int): Unit =
      popper.pop("maxMsgNums" -> count.toString, "invisibleTime" -> Invisible.toString).foreach(
        delivered
      )

    private def delivered(popped: Popped): Unit = {
      assert(!acked.contains(popped.body), s"$clue: ${popped.body} came after its ack")
      out.get(popped.body).foreach { case (_, until) =>
        assert(clock.wallMillis() >= until, s"$clue: ${popped.body} came while it was hidden")
      }
      assert(
        popped.record.envelope.topic == "t",
        s"$clue: ${popped.body} came as a message of ${popped.record.envelope.topic}"
      )
      out(popped.body) = (popped, popped.popTime + Invisible)
    }

    private def settled(popped: Popped): Unit = {
      val (_, until) = out.remove(popped.body).get
      if (clock.wallMillis() < until) acked += popped.body else late += popped.body
    }

    private def ack(popped: Popped): Unit = {
      assertEquals(popper.ack(popped).code, 0, clue)
      settled(popped)
    }

    private def ackTogether(): Unit =
      if (out.nonEmpty) {
        val some = out.values.map(_._1).toVector.sortBy(_.body).filter(_ => random.nextBoolean())
        if (some.nonEmpty) {
          assertEquals(popper.ackAll(some).code, 0, clue)
          some.foreach(settled)
        }
      }

    private def change(popped: Popped): Unit = {
      val millis = 1L + random.nextInt(3 * Invisible.toInt)
      val isInTime = clock.wallMillis() < out(popped.body)._2
      val changed = popper.change(popped, millis)
      if (isInTime) out(popped.body) = (changed, clock.wallMillis() + millis)
    }

    /**
     * Everybody is patient now: what was never acknowledged in time comes, however long it takes.
     */
    private def finish(): Unit = {
      (1 to 60).foreach { _ =>
        elapse(600000L)
        val found = popper.pop("invisibleTime" -> Invisible.toString)
        found.foreach(delivered)
        found.foreach(ack)
      }
      val lost = (1 to sent).map(n => s"m$n").filterNot(body => acked(body) || late(body))
      assertEquals(lost.toList, Nil, s"seed $seed: never delivered")
    }
  }

  private final class Orderly(seed: Int) extends Run(seed) {
    private var out = Vector.empty[Popped]
    private val until = mutable.Map.empty[String, Long]

    def play(): Unit = {
      (1 to 80).foreach(_ => step())
      finish()
      close()
    }

    private def step(): Unit = random.nextInt(10) match {
      case 0 | 1 => send(1)
      case 2 | 3 | 4 => pop(None)
      case 5 | 6 => random.shuffle(out.filterNot(one => acked(one.body))).headOption.foreach(ack)
      case 7 => out.filterNot(one => acked(one.body)).headOption.foreach(change)
      case 8 => elapse(random.nextInt(Invisible.toInt).toLong)
      case _ => if (random.nextInt(3) == 0) restart()
    }

    private def pop(attempt: Option[String]): Unit = {
      val fields = Seq(
        "order" -> "true",
        "queueId" -> "0",
        "maxMsgNums" -> (1 + random.nextInt(4)).toString,
        "invisibleTime" -> Invisible.toString
      ) ++ attempt.map("attemptId" -> _)
      val found = popper.pop(fields: _*)
      if (found.nonEmpty) {
        val unsettled = out.filter { one =>
          !acked(one.body) && clock.wallMillis() < until(one.body)
        }
        assertEquals(unsettled.map(_.body), Vector.empty, s"$clue: popped beyond these")
        found.foreach(one => assert(!acked(one.body), s"$clue: ${one.body} came after its ack"))
        val expected =
          (1 to sent).map(n => s"m$n").filterNot(acked.contains).take(found.length).toVector
        assertEquals(found.map(_.body), expected, s"$clue: not the first ones")
        out = found
        found.foreach(one => until(one.body) = one.popTime + Invisible)
      }
    }

    private def ack(popped: Popped): Unit = {
      assertEquals(popper.ack(popped).code, 0, clue)
      acked += popped.body
    }

    private def change(popped: Popped): Unit = {
      val millis = 1L + random.nextInt(2 * Invisible.toInt)
      assertEquals(popper.changeRequest(popped, millis).code, 0, clue)
      until(popped.body) = clock.wallMillis() + millis
    }

    private def finish(): Unit = {
      (1 to 2 * sent).foreach { _ =>
        elapse(4 * Invisible)
        pop(None)
        out.filterNot(one => acked(one.body)).foreach(ack)
      }
      assertEquals(acked.size, sent, s"seed $seed: never delivered")
    }
  }
}
