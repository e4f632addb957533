package rmqordered.handler

import rmqordered.config.LimitSettings
import rmqordered.util.RememberedTable

/**
 * The memory of everything that is remembered because clients said so, each kind with its bound.
 */
final class Remembered(val limits: LimitSettings) {
  val members = new RememberedTable("members", limits.consumerBytes)
  val producers = new RememberedTable("producers", limits.producerBytes)
  val groups = new RememberedTable("groups", limits.groupBytes)
  val topics = new RememberedTable("topics", limits.topicBytes)
  val pairs = new RememberedTable("pairs", limits.kvBytes)
  val offsets = new RememberedTable("offsets", limits.offsetBytes)

  private val all = Seq(members, producers, groups, topics, pairs, offsets)

  /** All of it, for whoever asks the broker how it is. */
  def use(leases: LeaseMemory, directUsed: () => Long): MemoryUse = {
    val runtime = Runtime.getRuntime
    MemoryUse(
      () => runtime.totalMemory() - runtime.freeMemory(),
      directUsed,
      () =>
        all.map(table => (table.name, table.bytes, table.maxBytes)) :+
          (("leases", leases.bytes, leases.maxBytes))
    )
  }
}
