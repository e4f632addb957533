package rmqordered.util

/**
 * A file that is read whole once and afterwards only replaced whole. Tables (leases, offsets,
 * topics) keep their state in one of these; how a replacement is made durable is the
 * implementation's business, so that the tables can be tested with a file that fails.
 */
trait SmallFile {

  /** How the file is called in log lines and errors. */
  def name: String

  /** The content, or nothing when the file was never written. */
  def read(): Option[Array[Byte]]

  /**
   * Replaces the content. When this returns, the new content survives a power failure; when it
   * throws, either the old or the new content is there, never a mixture.
   */
  def replace(content: Array[Byte]): Unit

  /** The content before the last replacement, where it is kept. */
  def readPrevious(): Option[Array[Byte]] = None

  /** Deletes the file and its previous version. */
  def remove(): Unit = ()

  /** Makes the previous content the current one, and puts a damaged one aside. */
  def restorePrevious(): Unit = ()
}
