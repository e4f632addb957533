package rmqordered.lease

/** A grant of a queue, as a run reads under it. */
final case class GrantedQueue(key: LeaseKey, epoch: Long)

/**
 * Why a run may not write: a lease that it read under is over, or it has given everything back.
 *
 * @param grant
 *   the lease that is over; nothing if the run gave its queues back itself
 */
final case class LostRun(run: String, grant: Option[GrantedQueue])

/**
 * A run of a query that reads here.
 *
 * @param user
 *   who named it first; nobody else's reads count as its own
 * @param reads
 *   the leases that it reads under and has not given back
 * @param lost
 *   it is known that this lease ended under it, and it never writes again
 * @param idleSince
 *   since when (monotonic) it has no lease any more, whatever became of them
 */
private[lease] final case class ReadingRun(
    user: String,
    reads: Map[LeaseKey, Long],
    lost: Option[GrantedQueue],
    idleSince: Option[Long]
)

/**
 * @param maxRuns
 *   how many runs are remembered, those that ended among them
 * @param maxReads
 *   how many leases in all runs read under
 * @param maxRunsPerRead
 *   how many runs may name one lease: one is usual, more are jobs whose group a user has set
 * @param memoryMs
 *   how long a run that has ended is remembered: for so long its writes are refused
 */
final case class RunLimits(maxRuns: Int, maxReads: Int, maxRunsPerRead: Int, memoryMs: Long)

/** What naming a run comes to. */
private[lease] sealed trait Naming

private[lease] object Naming {
  case object Known extends Naming
  final case class New(event: RunEvent.Named) extends Naming

  /** The read goes on, and does not count as the run's. */
  final case class Ignored(reason: String) extends Naming

  /** There is no room: the read must not be served. */
  final case class Full(reason: String) extends Naming
}

/**
 * Which runs read under which leases: immutable, bounded, changed by events only. Whether a lease
 * is live is for the lock table to say.
 *
 * A run that ended keeps one entry without leases for `memoryMs`; one that may still write is never
 * forgotten, so a table that is full takes no further run.
 */
private[lease] final case class RunTable(
    limits: RunLimits,
    runs: Map[String, ReadingRun] = Map.empty,
    readers: Map[LeaseKey, Set[String]] = Map.empty,
    reads: Int = 0
) {

  def get(run: String): Option[ReadingRun] = runs.get(run)

  /** Whether a run reads under a lease that it has not given back. */
  def hasRead(run: String, grant: GrantedQueue): Boolean =
    get(run).exists(_.reads.get(grant.key).contains(grant.epoch))

  /** The runs that read a queue under an earlier grant than this one. */
  def readersBefore(grant: GrantedQueue): Set[String] =
    readers.getOrElse(grant.key, Set.empty).filter(runs(_).reads(grant.key) < grant.epoch)

  def judge(run: String, user: String, grant: GrantedQueue): Naming = runs.get(run) match {
    case Some(known) if known.reads.get(grant.key).contains(grant.epoch) => Naming.Known
    // What it reads cannot be written any more; there is nothing to add to that.
    case Some(known) if known.lost.isDefined => Naming.Known
    case Some(known) if known.user != user =>
      Naming.Ignored(s"run $run was named by another user first")
    case None if runs.size >= limits.maxRuns =>
      Naming.Full(
        s"all ${limits.maxRuns} runs that are remembered are in use; a run is forgotten " +
          s"${limits.memoryMs / 1000} s after its end"
      )
    case _ if reads >= limits.maxReads =>
      Naming.Full(
        s"runs read under ${limits.maxReads} leases already, and there is no room for more"
      )
    case _ if readersOf(grant) >= limits.maxRunsPerRead =>
      Naming.Ignored(s"${limits.maxRunsPerRead} runs have named the lease before run $run")
    case _ => Naming.New(RunEvent.Named(run, user, grant))
  }

  private def readersOf(grant: GrantedQueue): Int =
    readers.getOrElse(grant.key, Set.empty).count(runs(_).reads(grant.key) == grant.epoch)

  /** @param at when it happened, in monotonic time */
  def applied(event: RunEvent, at: Long): RunTable = event match {
    case RunEvent.Named(run, user, grant) => named(run, user, grant, at)
    case RunEvent.GivenBack(run, grant, _) => changed(run)(without(_, grant, at))
    case RunEvent.Lost(run, grant, _) =>
      changed(run)(_.copy(reads = Map.empty, lost = Some(grant), idleSince = Some(at)))
    case RunEvent.Ended(run, user, lost, _) =>
      put(run, ReadingRun(user, Map.empty, lost, Some(at)))
    case RunEvent.Forgotten(run) =>
      val without = changed(run)(_.copy(reads = Map.empty))
      without.copy(runs = without.runs.removed(run))
  }

  private def named(run: String, user: String, grant: GrantedQueue, at: Long): RunTable = {
    val known = runs.getOrElse(run, ReadingRun(user, Map.empty, None, None))
    known.reads.get(grant.key) match {
      case _ if known.lost.isDefined => this
      case Some(epoch) if epoch >= grant.epoch => this
      // A later grant of a queue that it had not given back: the earlier one ended under it.
      case Some(epoch) =>
        applied(RunEvent.Lost(run, GrantedQueue(grant.key, epoch), atWall = 0L), at)
      case None =>
        put(run, known.copy(reads = known.reads.updated(grant.key, grant.epoch), idleSince = None))
    }
  }

  private def without(run: ReadingRun, grant: GrantedQueue, at: Long): ReadingRun =
    if (!run.reads.get(grant.key).contains(grant.epoch)) run
    else {
      val left = run.reads.removed(grant.key)
      run.copy(reads = left, idleSince = if (left.isEmpty) Some(at) else run.idleSince)
    }

  private def changed(run: String)(change: ReadingRun => ReadingRun): RunTable =
    runs.get(run).fold(this)(known => put(run, change(known)))

  private def put(run: String, changed: ReadingRun): RunTable = {
    val before = runs.get(run).fold(Set.empty[LeaseKey])(_.reads.keySet)
    val after = changed.reads.keySet
    val fewer = (before -- after).foldLeft(readers) { (all, key) =>
      val left = all(key) - run
      if (left.isEmpty) all.removed(key) else all.updated(key, left)
    }
    val more = (after -- before).foldLeft(fewer)((all, key) =>
      all.updated(key, all.getOrElse(key, Set.empty) + run)
    )
    copy(
      runs = runs.updated(run, changed),
      readers = more,
      reads = reads - before.size + after.size
    )
  }

  /** Runs that ended so long ago that nothing of theirs is expected any more. */
  def outlived(now: Long): Seq[String] = runs.keysIterator.filter(isOutlived(_, now)).toSeq

  def isOutlived(run: String, now: Long): Boolean =
    runs.get(run).exists(_.idleSince.exists(now - _ > limits.memoryMs))

  /** Events that make the same table of an empty one; `wall` is the time of `now`. */
  def events(now: Long, wall: Long): Iterator[RunEvent] = runs.iterator.flatMap {
    case (run, known) =>
      val reads = known.reads.iterator.map { case (key, epoch) =>
        RunEvent.Named(run, known.user, GrantedQueue(key, epoch))
      }
      val endedAt = known.idleSince.fold(wall)(wall - now + _)
      if (reads.hasNext) reads
      else Iterator(RunEvent.Ended(run, known.user, known.lost, endedAt))
  }
}
