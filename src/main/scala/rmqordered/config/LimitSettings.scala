package rmqordered.config

/**
 * What one request may name, and what clients can make the broker remember, at most. Far above what
 * clients need, so these are no settings of an operator. All tables together stay well below half
 * of the 512 MiB of heap that the command line gives the broker.
 *
 * @param groupsPerHeartbeat
 *   consumer and producer groups that one heartbeat may name
 * @param queuesPerLock
 *   queues that one lock or unlock may name; a body holds few more
 * @param topicAttributes
 *   characters of a topic's attributes
 * @param subscriptionChars
 *   characters of the expressions and tags that a member has for one group
 * @param kvValueChars
 *   characters of a value of the name server's key-value pairs
 * @param consumerBytes
 *   members of consumer groups and their subscriptions
 * @param producerBytes
 *   members of producer groups
 * @param groupBytes
 *   consumer groups that were ever used
 * @param topicBytes
 *   topics, and the names of deleted ones
 * @param kvBytes
 *   key-value pairs
 * @param offsetBytes
 *   committed offsets and pending resets
 * @param leaseBytes
 *   queue leases, about; how many there may be is the setting maxQueueLeases
 * @param maxRuns
 *   runs of queries that read here under leases, those that ended included; about 300 bytes each
 * @param maxRunReads
 *   leases that all these runs read under, about 300 bytes each
 * @param maxRunsPerLease
 *   runs that may name one lease; further ones are not fenced
 * @param runMemoryMs
 *   how long a run that ended is remembered, and its writes refused
 */
final case class LimitSettings(
    groupsPerHeartbeat: Int = 4096,
    queuesPerLock: Int = 20000,
    topicAttributes: Int = 4096,
    subscriptionChars: Int = 131072,
    kvValueChars: Int = 262144,
    consumerBytes: Long = 24L * LimitSettings.MiB,
    producerBytes: Long = 8L * LimitSettings.MiB,
    groupBytes: Long = 8L * LimitSettings.MiB,
    topicBytes: Long = 16L * LimitSettings.MiB,
    kvBytes: Long = 8L * LimitSettings.MiB,
    offsetBytes: Long = 32L * LimitSettings.MiB,
    leaseBytes: Long = 96L * LimitSettings.MiB,
    maxRuns: Int = 50000,
    maxRunReads: Int = 200000,
    maxRunsPerLease: Int = 8,
    runMemoryMs: Long = 7L * 24 * 60 * 60 * 1000
)

object LimitSettings {
  private[config] val MiB = 1024L * 1024L

  val default: LimitSettings = LimitSettings()
}
