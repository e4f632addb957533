package rmqordered.util

import java.io.IOException

/** A small file without a disk, that can be told to fail. */
final class MemoryFile(initial: Option[String] = None, previous: Option[String] = None)
    extends SmallFile {
  @volatile private var content: Option[Array[Byte]] = initial.map(_.getBytes("UTF-8"))
  @volatile var isBroken = false
  @volatile var replacements = 0

  override def name: String = "memory"

  override def read(): Option[Array[Byte]] = content

  override def readPrevious(): Option[Array[Byte]] = previous.map(_.getBytes("UTF-8"))

  override def restorePrevious(): Unit = content = readPrevious()

  override def replace(bytes: Array[Byte]): Unit = {
    if (isBroken) throw new IOException("no space left on the device")
    replacements += 1
    content = Some(bytes.clone())
  }

  override def remove(): Unit = content = None

  def text: String = content.fold("")(new String(_, "UTF-8"))
}
