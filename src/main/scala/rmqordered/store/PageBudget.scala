package rmqordered.store

import java.lang.reflect.Field
import java.nio.{Buffer, MappedByteBuffer}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.slf4j.LoggerFactory

import scala.ref.WeakReference
import scala.util.control.NonFatal

/**
 * Bounds how much of the mapped files counts as this process's memory. Whoever uses mapped bytes
 * says so with `used`; above `limitBytes` all pages in use are given back to the page cache. What
 * was written stays written, and a page that is touched again is mapped again: a matter of a
 * microsecond, never of correctness.
 *
 * Thread-safe; pages may be given back while others read and write them.
 *
 * @param giveBack
 *   gives all pages of a mapping back
 */
final class PageBudget(limitBytes: Long, giveBack: MappedByteBuffer => Unit) {
  private val usedBytes = new AtomicLong()
  private val inUse = ConcurrentHashMap.newKeySet[PageBudget.Entry]()

  /** A mapping under this budget. */
  def enter(mapping: MappedByteBuffer): PageBudget.Entry = new PageBudget.Entry(mapping)

  /** So many bytes of a mapping are about to be used, or were. */
  def used(entry: PageBudget.Entry, bytes: Long): Unit = {
    if (!entry.isListed) {
      entry.isListed = true
      inUse.add(entry)
    }
    if (usedBytes.addAndGet(bytes) > limitBytes) release()
  }

  private def release(): Unit = {
    usedBytes.set(0L)
    val entries = inUse.iterator()
    while (entries.hasNext) {
      val entry = entries.next()
      entries.remove()
      // Before the pages go: whoever comes in between lists the mapping again, which does no harm.
      entry.isListed = false
      entry.mapping.foreach(giveBack)
    }
  }
}

object PageBudget {
  private val logger = LoggerFactory.getLogger(classOf[PageBudget])

  /** Knows its mapping, but does not keep the file of one that nobody else needs. */
  final class Entry(known: MappedByteBuffer) {
    private val reference = new WeakReference(known)
    @volatile var isListed = false

    def mapping: Option[MappedByteBuffer] = reference.get
  }

  /**
   * The kernel's own way (madvise), which Java has but does not offer before release 22. Where it
   * cannot be reached, pages stay until the kernel takes them: more memory, the same broker.
   */
  lazy val giveBackToKernel: MappedByteBuffer => Unit =
    try {
      val unload = Class
        .forName("java.nio.MappedMemoryUtils")
        .getDeclaredMethod("unload", classOf[Long], classOf[Boolean], classOf[Long])
      unload.setAccessible(true)
      val address: Field = classOf[Buffer].getDeclaredField("address")
      address.setAccessible(true)
      mapping => {
        val start = java.lang.Long.valueOf(address.getLong(mapping))
        val size = java.lang.Long.valueOf(mapping.capacity().toLong)
        val _ = unload.invoke(null, start, java.lang.Boolean.FALSE, size)
      }
    } catch {
      case NonFatal(error) =>
        logger.info("mapped pages are left to the kernel problem={}", error.toString)
        _ => ()
    }
}
