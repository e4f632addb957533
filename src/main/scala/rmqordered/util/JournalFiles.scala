package rmqordered.util

/** A file that is filled from its beginning to its end, one piece after another. */
trait AppendFile {

  /** Where the next piece begins. */
  def position: Int

  /** Bytes that still fit. */
  def room: Int

  /**
   * Adds a piece. When this returns, it survives a power failure; when it throws, any part of it
   * may be there, and nothing more may be added.
   *
   * @throws java.io.IOException
   *   when the piece may not survive
   */
  def append(bytes: Array[Byte]): Unit
}

/**
 * The files of a table that is kept as a base and the changes since: base `n` is followed by the
 * journals `n`, `n + 1` and so on. Bases are written whole, journals are appended to. As with
 * `SmallFile`, how a write is made durable is the implementation's business.
 */
trait JournalFiles {

  /** How the files are called in log lines and errors. */
  def name: String

  /** The numbers of the bases that are there, ascending. */
  def bases: Seq[Long]

  /** The numbers of the journals that are there, ascending. */
  def journals: Seq[Long]

  def readBase(number: Long): Array[Byte]

  def readJournal(number: Long): Array[Byte]

  /** Writes a base; on return it survives a power failure, on a failure it is not there. */
  def writeBase(number: Long, content: Array[Byte]): Unit

  /** Makes an empty journal, in place of one of that number that is there; so does its name. */
  def createJournal(number: Long, capacity: Int): AppendFile

  /** Deletes the bases and journals of lower numbers. */
  def deleteBelow(number: Long): Unit
}
