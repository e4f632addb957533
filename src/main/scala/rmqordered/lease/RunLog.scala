package rmqordered.lease

import java.io.IOException

import rmqordered.util.{Clock, RecordLog}

/** Where the table of runs outlives the process: events, oldest first. */
private[lease] final class RunLog(log: RecordLog, clock: Clock) {

  def name: String = log.name

  /**
   * The table as it was recorded. How long ago a run ended is for the wall clock to say; where that
   * makes no sense, it ended just now.
   *
   * @throws IOException
   *   when a record cannot be read: the broker must not start without the fence
   */
  def load(limits: RunLimits): RunTable = {
    val now = clock.monotonicMillis()
    val wall = clock.wallMillis()
    def at(endedAt: Long): Long = now - Math.min(Math.max(wall - endedAt, 0L), limits.memoryMs)
    log.recovered.foldLeft(RunTable(limits)) { (table, bytes) =>
      val event = decoded(bytes)
      val when = event match {
        case RunEvent.GivenBack(_, _, endedAt) => at(endedAt)
        case RunEvent.Lost(_, _, endedAt) => at(endedAt)
        case RunEvent.Ended(_, _, _, endedAt) => at(endedAt)
        case RunEvent.Named(_, _, _) | RunEvent.Forgotten(_) => now
      }
      table.applied(event, when)
    }
  }

  private def decoded(bytes: Array[Byte]): RunEvent =
    try RunEvent.decode(bytes)
    catch {
      case error: IOException =>
        throw new IOException(
          s"The runs in ${log.name} cannot be read: ${error.getMessage}. Put a copy of the folder " +
            "in its place.",
          error
        )
    }

  /** The table in the place of what was recorded, whenever the log has grown. */
  def replaceWith(table: () => RunTable): Unit = log.replaceWith { () =>
    table()
      .events(clock.monotonicMillis(), clock.wallMillis())
      .map(RunEvent.encode)
      .toVector
  }

  def append(event: RunEvent)(done: Option[Throwable] => Unit): Unit =
    log.append(RunEvent.encode(event))(done)
}
