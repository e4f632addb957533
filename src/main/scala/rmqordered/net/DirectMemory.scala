package rmqordered.net

import java.lang.management.{BufferPoolMXBean, ManagementFactory}

import io.netty.util.internal.PlatformDependent

/** Memory outside the heap that buffers take: Netty's, and Java's but for mapped files. */
object DirectMemory {
  private val pool = ManagementFactory.getPlatformMXBeans(classOf[BufferPoolMXBean])

  def used: Long = {
    var bytes = Math.max(PlatformDependent.usedDirectMemory(), 0L)
    pool.forEach(kind => if (kind.getName == "direct") bytes += kind.getMemoryUsed)
    bytes
  }
}
