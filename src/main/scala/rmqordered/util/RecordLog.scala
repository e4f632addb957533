package rmqordered.util

/**
 * Records in the order in which they were appended, each durable when its append says so. Tables
 * that change by single records (which run reads which queue) keep them in one of these; how that
 * is done is the implementation's business, so that the tables can be tested with a log that fails.
 */
trait RecordLog {

  /** How the log is called in log lines and errors. */
  def name: String

  /** What was there at the start, oldest first. */
  def recovered: Vector[Array[Byte]]

  /**
   * Takes the place of all records whenever the log has grown: whatever was appended has to be in
   * it, from the moment of the append on.
   */
  def replaceWith(whole: () => Seq[Array[Byte]]): Unit

  /**
   * Calls `done` when the record survives a power failure, or with the reason why it may not. Never
   * waits for the disk; `done` is called by another thread.
   */
  def append(record: Array[Byte])(done: Option[Throwable] => Unit): Unit
}
