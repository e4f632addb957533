package rmqordered.store

import java.nio.file.Path
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import rmqordered.Proves._
import rmqordered.config.BrokerConfig
import rmqordered.model.{QueueKey, TagFilter, TopicConfig}
import rmqordered.protocol.{RecordContent, Slice}
import rmqordered.store.StoreFixture._
import rmqordered.util.{ManualClock, WorkTurn}

/**
 * The store on a disk that loses power at any moment, compared with what it promised. Rounds come
 * from seeds; a failure names its seed. `-Drmqordered.crashRounds=100000` runs longer,
 * `-Drmqordered.crashSeed=N` runs one seed.
 */
class CrashModelSuite extends munit.FunSuite {
  private val rounds: Int = Integer.getInteger("rmqordered.crashRounds", 400)
  private val oneSeed: Option[Long] =
    Option(java.lang.Long.getLong("rmqordered.crashSeed")).map(_.longValue)

  override def munitTimeout: scala.concurrent.duration.Duration =
    scala.concurrent.duration.Duration(60, TimeUnit.MINUTES)

  Seq("SYNC_FLUSH", "ASYNC_FLUSH").foreach { mode =>
    test(s"after any power failure the store is what it promised, $mode".proves(
      "acked-survives-power-failure"
    )) {
      val seeds = oneSeed.fold[Iterator[Long]]((1L to rounds.toLong).iterator)(Iterator(_))
      val coverage = new CrashRun.Coverage
      seeds.foreach { seed =>
        try new CrashRun(seed, mode, coverage).run()
        catch {
          case error: Throwable =>
            throw new AssertionError(
              s"seed $seed with $mode (-Drmqordered.crashSeed=$seed): $error",
              error
            )
        }
      }
      // A model that never crashes in the middle of anything proves nothing.
      if (oneSeed.isEmpty) coverage.ensureSeen()
    }
  }
}

/** One seed: a few lives of one store, each ended by a power failure. */
final class CrashRun(seed: Long, mode: String, coverage: CrashRun.Coverage) {
  import CrashRun._

  private val random = new Random(seed)
  private val disk = new SimulatedDisk(random)
  private val clock = new ManualClock()
  private val root = Path.of("/simulated")
  private val model = new Model
  private var messageCount = 0
  // Equal sizes let old bytes fit exactly behind new ones.
  private val isUniform = random.nextBoolean()
  private val config = BrokerConfig.of(
    Map(
      "mappedFileSizeCommitLog" -> "70000",
      "mappedFileSizeConsumeQueue" -> "400",
      "maxMessageSize" -> "4464",
      "flushDiskType" -> mode,
      "fileReservedTime" -> "1",
      "maxCommitLogBytes" -> (if (random.nextInt(3) == 0) "210000" else "0")
    )
  )

  def run(): Unit = {
    var life = 0
    while (life < 5) {
      val isStarted = startAndLive(isFirst = life == 0)
      // After a kill the next start finds everything, on the platter or not; after that the power
      // may fail just the same.
      if (disk.hasFailed || random.nextInt(3) > 0) disk.crash() else kill()
      // As operators are told to do when a queue's files are damaged.
      if (random.nextInt(8) == 0) disk.deleteTree(root.resolve("consumequeue"))
      if (isStarted) life += 1
    }
    // The last look is on a machine that stays up.
    val store = open()
    check(store)
    store.close()
    ensureCleanStartReadsNothing()
  }

  private def kill(): Unit = {
    disk.failAt(-1)
    coverage.kills += 1
  }

  private def open(): MessageStore = {
    val directory = DataDirectory.open(root, disk)
    val topics = new TopicTable(directory.table("topics"), Nil)
    new MessageStore(
      directory,
      config,
      topics,
      clock,
      (_, _) => (),
      background = false,
      indexShape = SmallIndex
    )
  }

  /** A life of the store; the power may fail while it is still starting. */
  private def startAndLive(isFirst: Boolean): Boolean = {
    if (!isFirst && random.nextInt(4) == 0) disk.failAt(random.nextInt(40))
    try {
      val store = open()
      check(store)
      createTopic(store)
      disk.failAt(random.nextInt(400))
      // Short lives end before they have written over what the last one left behind.
      val steps = if (random.nextInt(2) == 0) 1 + random.nextInt(8) else 20 + random.nextInt(60)
      (0 until steps).foreach(_ => step(store))
      if (random.nextInt(6) == 0) {
        store.close()
        coverage.cleanStops += 1
      }
      true
    } catch {
      case _: PowerFailure =>
        coverage.failures += 1
        !isFirst
    }
  }

  private def createTopic(store: MessageStore): Unit =
    if (!store.topics.contains(Topic)) {
      model.isCreating = true
      store.topics.put(TopicConfig(Topic, Queues, Queues))
      model.created()
    }

  private def deleteTopic(store: MessageStore): Unit = {
    model.isDeleting = true
    store.deleteTopic(Topic)
    model.deleted()
    coverage.deletions += 1
  }

  private def step(store: MessageStore): Unit = {
    random.nextInt(21) match {
      case 20 => if (store.topics.contains(Topic)) deleteTopic(store) else createTopic(store)
      case 0 => store.checkpoint()
      case 1 =>
        clock.advance(random.nextInt(3600000).toLong)
        model.mayRetire()
        if (store.retire() > 0) coverage.retired += 1
        model.retired(store)
      case 2 | 3 => disk.writeBackSome()
      case 4 => clock.advance(-random.nextInt(2000).toLong)
      case 5 | 6 | 7 => store.flush()
      case _ => append(store)
    }
    // A flush that meets a power failure only makes the store refuse; the machine is off all the same.
    if (disk.hasFailed) throw new PowerFailure
  }

  private def append(store: MessageStore): Unit = {
    val queueId = random.nextInt(Queues)
    val bodies = Vector.fill(if (random.nextInt(3) == 0) 1 + random.nextInt(6) else 1)(nextBody())
    val attempt = model.attempt(queueId, bodies)
    store.append(envelope(Topic, queueId), bodies.map(keyed)) {
      case AppendOutcome.Stored(queueOffset, _) => model.acknowledged(attempt, queueOffset)
      case AppendOutcome.Unavailable(_) => throw new PowerFailure
      // A sender that looked the topic up before it was deleted.
      case _: AppendOutcome.NoTopic if !model.exists =>
        model.refused(attempt)
        coverage.tooLate += 1
      case other: AppendOutcome.Impossible => throw new AssertionError(s"refused: $other")
    }
  }

  private def nextBody(): String = {
    messageCount += 1
    val filler = if (random.nextInt(5) == 0) random.nextInt(4000) else random.nextInt(200)
    if (isUniform) s"$messageCount:".padTo(UniformBytes, 'x') else s"$messageCount:" + "x" * filler
  }

  private def check(store: MessageStore): Unit = {
    coverage.scanned += store.scannedRecords
    model.checkTopic(store.topics.contains(Topic))
    (0 until Queues).foreach { queueId =>
      val key = QueueKey(Topic, queueId)
      val (min, max) = (store.minOffset(key), store.maxOffset(key))
      val all = ReadRequest(min, ReadLimits(100000, 1 << 28, 100000), TagFilter.Everything)
      val found = if (min == max) Nil else records(store.read(key, all))
      assert(
        found.map(_.position.queueOffset) == (min until max),
        s"queue $queueId is not dense from $min to $max"
      )
      assert(
        found.forall(r => r.envelope.topic == Topic && r.envelope.queueId == queueId),
        s"queue $queueId holds strangers"
      )
      val times = found.map(_.position.storeTimestamp)
      assert(times == times.sorted, s"store times of queue $queueId fall")
      model.check(
        queueId,
        min,
        found.map(r => new String(r.content.body.toArray, "UTF-8")),
        mode == "SYNC_FLUSH"
      )
      found.lastOption.foreach(newest => checkFound(store, newest))
    }
    model.recovered()
  }

  private def checkFound(store: MessageStore, record: rmqordered.protocol.DecodedRecord): Unit = {
    val body = new String(record.content.body.toArray, "UTF-8")
    val key = s"key-${body.takeWhile(_ != ':')}"
    val byKey = store
      .advance(new KeySearch(KeyQuery(Topic, key, KeyKind.Chosen, 8)), WorkTurn.endless())
      .getOrElse(throw new AssertionError("the search came to no end"))
    assert(byKey.messageCount == 1, s"$key is found ${byKey.messageCount} times")
    val at = record.position.commitLogOffset
    assert(store.messageAt(at).exists(_.length == record.size), s"no message at $at")
    assert(store.messageAt(at + 1).isEmpty, s"a message at ${at + 1}")
  }

  private def ensureCleanStartReadsNothing(): Unit = {
    val store = open()
    assert(store.scannedRecords == 0, s"${store.scannedRecords} records read after a clean stop")
    check(store)
    store.close()
  }
}

object CrashRun {
  private val Topic = "orders"
  private val Queues = 3
  private val UniformBytes = 700
  private val SmallIndex = IndexShape(slots = 16, entries = 40)

  private def keyed(body: String): RecordContent = {
    val properties = s"KEYS\u0001key-${body.takeWhile(_ != ':')}\u0002"
    new RecordContent(0, Slice(body.getBytes("UTF-8")), Slice(properties.getBytes("UTF-8")))
  }

  private def assert(isTrue: Boolean, sentence: => String): Unit =
    if (!isTrue) throw new AssertionError(sentence)

  /** Counts that say whether the seeds reached the interesting places. */
  final class Coverage {
    var failures, kills, cleanStops, retired, deletions, tooLate = 0
    var scanned = 0L

    def ensureSeen(): Unit = {
      assert(failures > 50, s"$failures power failures")
      assert(kills > 10, s"$kills kills")
      assert(cleanStops > 10, s"$cleanStops clean stops")
      assert(retired > 20, s"$retired retentions")
      assert(deletions > 100, s"$deletions topics deleted")
      assert(tooLate > 100, s"$tooLate sends after a deletion")
      assert(scanned > 1000, s"$scanned records read by recovery")
    }
  }

  private final class Attempt(val queueId: Int, val bodies: Vector[String], val incarnation: Int)

  /**
   * What may and what must be in each queue. `known` are the messages seen or acknowledged, by
   * offset; `open` are appends of this life without an answer, in order: any number of them, from
   * the front and whole, may have survived.
   */
  private final class Model {
    private val known = Array.fill(Queues)(mutable.TreeMap.empty[Long, String])
    private val open = Array.fill(Queues)(mutable.ArrayBuffer.empty[Attempt])
    private val floor = Array.fill(Queues)(0L)

    // Begun, and perhaps done when the power failed.
    var isDeleting, isCreating = false
    var exists = false
    private var incarnation = 0

    def created(): Unit = {
      isCreating = false
      exists = true
    }

    /** Nothing of it may come back, though a topic of its name does. */
    def deleted(): Unit = {
      isDeleting = false
      exists = false
      incarnation += 1
      (0 until Queues).foreach { q =>
        known(q).clear()
        open(q).clear()
        floor(q) = 0L
      }
    }

    def checkTopic(isThere: Boolean): Unit = {
      assert(isThere == exists || isDeleting || isCreating, s"topic: $isThere, known: $exists")
      if (exists && !isThere) deleted()
      exists = isThere
      isDeleting = false
      isCreating = false
    }

    def refused(attempt: Attempt): Unit = open(attempt.queueId) -= attempt

    def attempt(queueId: Int, bodies: Vector[String]): Attempt = {
      val made = new Attempt(queueId, bodies, incarnation)
      open(queueId) += made
      made
    }

    def acknowledged(attempt: Attempt, queueOffset: Long): Unit = {
      val q = attempt.queueId
      open(q) -= attempt
      // An answer may come after its topic was deleted.
      if (attempt.incarnation == incarnation)
        attempt.bodies.zipWithIndex.foreach { case (body, i) => known(q)(queueOffset + i) = body }
    }

    private var isRetiring = false

    def mayRetire(): Unit = isRetiring = true

    /** Retention has taken the messages below what the store says now, and no others. */
    def retired(store: MessageStore): Unit = {
      (0 until Queues).foreach(q =>
        floor(q) = Math.max(floor(q), store.minOffset(QueueKey(Topic, q)))
      )
      isRetiring = false
    }

    def check(q: Int, min: Long, bodies: Seq[String], isSync: Boolean): Unit = {
      val expected = known(q).rangeFrom(min)
      val end = min + bodies.length
      assert(min >= floor(q), s"queue $q begins at $min, retention had reached ${floor(q)}")
      assert(
        min == floor(q) || isRetiring,
        s"queue $q begins at $min, nothing was taken above ${floor(q)}"
      )
      floor(q) = min
      if (isSync) {
        val knownEnd = known(q).lastOption.fold(0L)(_._1 + 1)
        assert(end >= knownEnd, s"queue $q ends at $end, acknowledged up to $knownEnd")
      }
      bodies.zipWithIndex.foreach { case (body, i) =>
        expected.get(min + i) match {
          case Some(acknowledged) => assert(
              acknowledged == body,
              s"queue $q offset ${min + i} is '${body.take(20)}', acknowledged '${acknowledged.take(20)}'"
            )
          case None => ()
        }
      }
      checkUnknown(q, min, bodies)
      // What is there now is known from here on; with asynchronous flush the rest is gone for good.
      known(q).clear()
      bodies.zipWithIndex.foreach { case (body, i) => known(q)(min + i) = body }
    }

    /** Beyond what is known there may be whole appends nobody was told about, in their order. */
    private def checkUnknown(q: Int, min: Long, bodies: Seq[String]): Unit = {
      val unknown =
        bodies.zipWithIndex.collect { case (body, i) if !known(q).contains(min + i) => body }
      var rest = unknown.toVector
      // Retention takes whole files, hence whole appends; of the unanswered ones only if all others went.
      val isFrontGone = min > 0 && known(q).rangeFrom(min).isEmpty
      val candidates =
        open(q).iterator.dropWhile(a => isFrontGone && rest.nonEmpty && !rest.startsWith(a.bodies))
      while (rest.nonEmpty) {
        assert(candidates.hasNext, s"queue $q holds '${rest.head.take(20)}', which nobody sent")
        val next = candidates.next().bodies
        assert(
          rest.startsWith(next),
          s"queue $q goes on with '${rest.head.take(20)}', sent '${next.head.take(20)}' (${next.length})"
        )
        rest = rest.drop(next.length)
      }
    }

    def recovered(): Unit = {
      open.foreach(_.clear())
      isRetiring = false
    }
  }
}
