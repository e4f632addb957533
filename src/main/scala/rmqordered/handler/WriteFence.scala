package rmqordered.handler

import rmqordered.lease.{GrantedQueue, LeaseKey, NamingOutcome, QueueLockManager, ReadingRuns}
import rmqordered.model.QueueKey

/**
 * Keeps a run that lost a queue from writing what it has read there. Pulls that carry a lease epoch
 * may name the run of a query that reads (`run`), and so may sends: such a send is stored only
 * while every lease that the run reads under is live. Requests that name no run pass.
 */
final class WriteFence(runs: ReadingRuns, locks: QueueLockManager, identity: BrokerIdentity) {
  import WriteFence._

  /**
   * Whether a pull may be served now. If it has to wait for its run to be recorded, it is judged
   * again by `again`, on another thread.
   */
  def isNamed(call: Call, group: String, queue: QueueKey, epoch: Option[Long])(
      again: () => Unit
  ): Boolean =
    (for (run <- runOf(call); lease <- epoch) yield {
      val grant = GrantedQueue(LeaseKey(group, identity.messageQueue(queue)), lease)
      runs.named(run, call.optional(UserField).getOrElse(""), grant)(resume(call, again, _)) match {
        case NamingOutcome.Served => true
        case NamingOutcome.Waits => false
        case NamingOutcome.Refused(reason) => throw Failures.unavailable(reason)
      }
    }).getOrElse(true)

  private def resume(call: Call, again: () => Unit, failure: Option[Throwable]): Unit =
    failure match {
      case None => call.connection.whenWritable(again)
      case Some(error) =>
        call.fail(
          Failures.unavailable(s"the run of this pull could not be recorded: ${error.getMessage}")
        )
    }

  /** Stores what a send brings, unless it names a run that may not write. */
  def ifWriting(call: Call)(store: => Unit): Unit = runOf(call) match {
    case None => store
    case Some(run) =>
      runs.ifWriting(run)(store).left.foreach { lost =>
        throw Failures.writeFenced(lost, lost.grant.flatMap(grant => locks.holder(grant.key)))
      }
  }

  /** Calls `done` when no earlier run writes any more what it has read of these queues. */
  def whenWritten(grants: Iterable[GrantedQueue])(done: => Unit): Unit =
    runs.whenWritten(grants)(() => done)

  /** Whoever holds these queues gives them back and goes on with others. */
  def givenBack(grants: Iterable[GrantedQueue]): Unit = runs.givenBack(grants)

  private def runOf(call: Call): Option[String] = {
    val run = call.optional(RunField)
    run.foreach { name =>
      if (name.length > MaxRunLength || !name.forall(char => char > ' ' && char < DelCharacter))
        throw Failures.invalid(
          s"The header field $RunField expects at most $MaxRunLength printable characters, found " +
            s"${name.length}, or others among them."
        )
    }
    run
  }
}

object WriteFence {
  val RunField = "run"

  // Two UUIDs have 73.
  private val MaxRunLength = 128
  private val DelCharacter = '\u007f'

  // The request has been let through, so this is who signed it.
  private val UserField = "AccessKey"
}
