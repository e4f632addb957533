package rmqordered.config

/**
 * How much clients can make the broker remember.
 *
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
    maxRuns: Int = 50000,
    maxRunReads: Int = 200000,
    maxRunsPerLease: Int = 8,
    runMemoryMs: Long = 7L * 24 * 60 * 60 * 1000
)
