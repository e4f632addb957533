package rmqordered.util

import java.io.IOException

/**
 * Records without a disk. Appends wait until `settle`, and are lost with `restarted` before that; a
 * broken one fails them.
 */
final class MemoryRecords(override val recovered: Vector[Array[Byte]] = Vector.empty)
    extends RecordLog {
  private var waiting = Vector.empty[(Array[Byte], Option[Throwable] => Unit)]
  private var kept = recovered
  @volatile var isBroken = false
  @volatile var isHeld = false

  override def name: String = "memory"

  override def replaceWith(whole: () => Seq[Array[Byte]]): Unit = ()

  override def append(record: Array[Byte])(done: Option[Throwable] => Unit): Unit = {
    synchronized { waiting = waiting :+ (record -> done) }
    if (!isHeld) settle()
  }

  /** Does what the disk is asked to. */
  def settle(): Unit = {
    val batch = synchronized {
      val batch = waiting
      waiting = Vector.empty
      if (!isBroken) kept = kept ++ batch.map(_._1)
      batch
    }
    val failure = Option.when(isBroken)(new IOException("no space left on the device"))
    batch.foreach(_._2(failure))
  }

  def appended: Int = synchronized(kept.length - recovered.length)

  /** What the next process finds. */
  def restarted: MemoryRecords = synchronized(new MemoryRecords(kept))
}
