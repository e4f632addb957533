package rmqordered.lease

import scala.annotation.tailrec
import scala.collection.mutable

import org.slf4j.LoggerFactory

import rmqordered.util.{Clock, RecordLog, Survive}

/** What came of naming a run in a read. */
sealed trait NamingOutcome

object NamingOutcome {

  /** The read may be served. */
  case object Served extends NamingOutcome

  /** The read has to wait: what was left to be called is, when it may be tried again. */
  case object Waits extends NamingOutcome

  /** The read must not be served. */
  final case class Refused(reason: String) extends NamingOutcome
}

/**
 * The fence around writes: a run of a query that reads under leases writes only while all of them
 * live.
 *
 * Invariants: a read that names its run is served only when that is on disk; once `whenWritten` has
 * answered for a grant, nothing more is written by a run that read the queue before it. That is an
 * order, not a lock: a write counts itself in first and asks for the leases second, a grant ends
 * the leases first and looks for writes second.
 *
 * Thread-safe, without threads. `guard` is held for moments, never while something is written or
 * recorded, and never while the lock table is asked.
 */
final class ReadingRuns(
    log: RecordLog,
    locks: QueueLockManager,
    clock: Clock,
    limits: RunLimits
) {
  import ReadingRuns._

  private val guard = new Object
  private val events = new RunLog(log, clock)
  private var table: RunTable = events.load(limits)
  // Reads that wait for a record, by what it says.
  private val unrecorded = mutable.Map.empty[RunEvent.Named, Vector[Option[Throwable] => Unit]]
  // Writes by number, so that a grant waits for those that it found and for no later ones.
  private val writing = mutable.Map.empty[String, Set[Long]]
  private var lastWrite = 0L
  private var drains = Vector.empty[Drain]
  private val verified = new java.util.concurrent.ConcurrentHashMap[String, Verified]()
  events.replaceWith(() => guard.synchronized(table))

  /**
   * A run reads under a lease. When the read has to wait, `goOn` is called once, by another thread,
   * with the reason if the run could not be recorded.
   */
  def named(run: String, user: String, grant: GrantedQueue)(
      goOn: Option[Throwable] => Unit
  ): NamingOutcome = {
    val (outcome, toRecord) = guard.synchronized {
      val waiting = RunEvent.Named(run, table.get(run).fold(user)(_.user), grant)
      table.judge(run, user, grant) match {
        case Naming.Known if unrecorded.contains(waiting) =>
          unrecorded(waiting) = unrecorded(waiting) :+ goOn
          (NamingOutcome.Waits, None)
        case Naming.Known => (NamingOutcome.Served, None)
        case Naming.New(event) =>
          table = table.applied(event, clock.monotonicMillis())
          unrecorded(event) = Vector(goOn)
          (NamingOutcome.Waits, Some(event))
        case Naming.Ignored(reason) =>
          logger.debug("a read does not count as its run's: {}", reason)
          (NamingOutcome.Served, None)
        case Naming.Full(reason) => (NamingOutcome.Refused(reason), None)
      }
    }
    toRecord.foreach { event =>
      val _ = verified.remove(run)
      events.append(event)(recorded(event, _))
    }
    outcome
  }

  private def recorded(event: RunEvent.Named, failure: Option[Throwable]): Unit = {
    val waiting = guard.synchronized {
      // It may be on disk all the same; to know of too much is safe.
      if (failure.isDefined)
        applyNow(RunEvent.GivenBack(event.run, event.grant, clock.wallMillis()))
      unrecorded.remove(event).getOrElse(Vector.empty)
    }
    waiting.foreach(goOn => Survive(logger, "a read that waited for its run")(goOn(failure)))
  }

  /** Runs give these leases back themselves, and go on without. Before the leases end. */
  def givenBack(grants: Iterable[GrantedQueue]): Unit = {
    val changes = guard.synchronized {
      val wall = clock.wallMillis()
      val changes = for {
        grant <- grants.toSeq
        run <- table.readers.getOrElse(grant.key, Set.empty).toSeq
        if table.get(run).exists(_.reads.get(grant.key).contains(grant.epoch))
      } yield RunEvent.GivenBack(run, grant, wall)
      changes.foreach(applyNow)
      changes
    }
    // A record that fails makes the run one that lost the lease after a restart: that is safe.
    changes.foreach(record)
  }

  /** A topic is being deleted: nobody goes on with what was read of it. */
  def removeTopic(topic: String): Unit = {
    val grants = guard.synchronized {
      for {
        key <- table.readers.keys.filter(_.queue.topic == topic).toSeq
        run <- table.readers(key)
      } yield GrantedQueue(key, table.runs(run).reads(key))
    }
    givenBack(grants.distinct)
  }

  /**
   * Writes for a run, or says why it may not. What the action appends has its place in the log when
   * it returns.
   */
  def ifWriting[T](run: String)(action: => T): Either[LostRun, T] = {
    val write = enter(run)
    try lost(run).toLeft(()).map(_ => action)
    finally leave(run, write)
  }

  private def enter(run: String): Long = guard.synchronized {
    lastWrite += 1
    writing(run) = writing.getOrElse(run, Set.empty) + lastWrite
    lastWrite
  }

  private def leave(run: String, write: Long): Unit = {
    val done = guard.synchronized {
      val left = writing(run) - write
      if (left.isEmpty) writing.remove(run) else writing(run) = left
      val (over, open) = drains.map(_.without(write)).partition(_.writes.isEmpty)
      drains = open
      over
    }
    done.foreach(drain => Survive(logger, "a grant that waited for writes")(drain.done()))
  }

  /** Why a run may not write; nothing for one that has read nothing here. */
  @tailrec
  private def lost(run: String): Option[LostRun] = guard.synchronized(table.get(run)) match {
    case None => None
    case Some(known) if known.lost.isDefined || known.reads.isEmpty =>
      Some(LostRun(run, known.lost))
    case Some(known) =>
      locks.verify(known.reads, Option(verified.get(run)).filter(_.of eq known.reads)) match {
        case Left(grant) if guard.synchronized(table.hasRead(run, grant)) =>
          Some(LostRun(run, Some(grant)))
        // It has given the queue back between the two looks.
        case Left(_) => lost(run)
        case Right(fresh) =>
          val _ = verified.put(run, fresh)
          None
      }
  }

  /**
   * Calls `done` when nothing is being written any more by runs that read these queues before they
   * were granted so. Waits for nothing itself.
   */
  def whenWritten(grants: Iterable[GrantedQueue])(done: () => Unit): Unit = {
    val isWritten = guard.synchronized {
      val readers = grants.iterator.flatMap(table.readersBefore).toSet
      val busy = readers.flatMap(run => writing.getOrElse(run, Set.empty))
      if (busy.nonEmpty) drains = drains :+ Drain(busy, done)
      busy.isEmpty
    }
    if (isWritten) done()
  }

  /** Periodic: marks the runs that lost a lease, and forgets those that ended long ago. */
  def sweep(): Unit = {
    val now = clock.monotonicMillis()
    val seen = guard.synchronized(table)
    val ended = for {
      (run, known) <- seen.runs.toSeq
      if known.reads.nonEmpty
      grant <- locks.verify(known.reads, None).left.toOption
    } yield run -> grant
    val old = seen.outlived(now)
    val changes = guard.synchronized {
      val wall = clock.wallMillis()
      val lost = ended.collect {
        // Who still writes is found by its leases, so they stay until it has ended.
        case (run, grant) if !writing.contains(run) && table.hasRead(run, grant) =>
          RunEvent.Lost(run, grant, wall)
      }
      val forgotten = old.filter(run => !writing.contains(run) && table.isOutlived(run, now))
      val changes: Seq[RunEvent] = lost ++ forgotten.map(RunEvent.Forgotten)
      changes.foreach(applyNow)
      changes
    }
    changes.foreach { change =>
      verified.remove(change.run)
      record(change)
    }
  }

  /** How many runs are remembered, and under how many leases they read. */
  def size: (Int, Int) = guard.synchronized((table.runs.size, table.reads))

  private def applyNow(event: RunEvent): Unit =
    table = table.applied(event, clock.monotonicMillis())

  private def record(event: RunEvent): Unit = events.append(event) { failure =>
    failure.foreach(error => logger.warn("a change of runs was not recorded: {}", error.toString))
  }
}

object ReadingRuns {
  private val logger = LoggerFactory.getLogger(classOf[ReadingRuns])

  /** A grant's answer that waits for these writes to end. */
  private final case class Drain(writes: Set[Long], done: () => Unit) {
    def without(write: Long): Drain = copy(writes = writes - write)
  }
}
