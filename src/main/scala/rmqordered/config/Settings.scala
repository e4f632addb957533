package rmqordered.config

/**
 * Every setting of the broker. RocketMQ's own name is used where it has one for the same thing, so
 * that an operator can guess. `conf/broker.conf` lists the same names with the same defaults.
 */
object Settings extends SecuritySettings with ConnectionSettings with UpkeepSettings {
  private val KiB = 1024
  private val MiB = 1024 * KiB

  val brokerName: Setting[String] =
    Setting.word("brokerName", "broker-a", "Name of this broker in routes and message queues.")
  val brokerClusterName: Setting[String] =
    Setting.word(
      "brokerClusterName",
      "DefaultCluster",
      "Cluster name shown to clients and mqadmin."
    )
  val brokerIP1: Setting[String] =
    Setting.text(
      "brokerIP1",
      "",
      "Host that routes hand out to clients; empty: the listen host, or a reachable address of " +
        "this machine for a wildcard."
    )
  val listenHost: Setting[String] =
    Setting.text("listenHost", "127.0.0.1", "Address to listen on; --listen overrides it.")
  val listenPort: Setting[Int] =
    Setting.int(
      "listenPort",
      9876,
      0 to 65535,
      "Port to listen on; 0 picks a free one; --listen overrides it."
    )
  val storePathRootDir: Setting[String] =
    Setting.text("storePathRootDir", "rmq-ordered-data", "Data directory; --data overrides it.")
  val autoCreateTopicEnable: Setting[Boolean] =
    Setting.flag("autoCreateTopicEnable", true, "Create a topic on the first send to it.")
  val autoCreateSubscriptionGroup: Setting[Boolean] =
    Setting.flag(
      "autoCreateSubscriptionGroup",
      true,
      "Create a consumer group on its first heartbeat or pull."
    )
  val defaultTopicQueueNums: Setting[Int] =
    Setting.int(
      "defaultTopicQueueNums",
      8,
      1 to 1024,
      "Queues of the template topic for topics created on send."
    )
  val maxQueuesPerTopic: Setting[Int] =
    Setting.int(
      "maxQueuesPerTopic",
      65536,
      1 to 1048576,
      "Largest number of queues a topic may have."
    )
  val maxMessageSize: Setting[Int] =
    Setting.int(
      "maxMessageSize",
      4 * MiB,
      1024 to 8 * MiB,
      "Largest message body, or batch of messages, in bytes."
    )
  // RocketMQ's default is ASYNC_FLUSH. Losing acknowledged data is never a default here.
  val flushDiskType: Setting[FlushDiskType] =
    Setting.choice[FlushDiskType](
      "flushDiskType",
      FlushDiskType.Sync,
      "SYNC_FLUSH: acknowledge after fsync, sends share one; ASYNC_FLUSH: flush every " +
        "flushIntervalMs."
    )("SYNC_FLUSH" -> FlushDiskType.Sync, "ASYNC_FLUSH" -> FlushDiskType.Async)
  val flushIntervalMs: Setting[Int] =
    Setting.int("flushIntervalMs", 500, 1 to 60000, "Time between flushes with ASYNC_FLUSH.")
  // RocketMQ: 1 GiB. A laptop's disk and page cache prefer smaller files.
  val mappedFileSizeCommitLog: Setting[Int] =
    Setting.int(
      "mappedFileSizeCommitLog",
      64 * MiB,
      64 * KiB to 1024 * MiB,
      "Size of a commit log file in bytes."
    )
  val mappedFileSizeConsumeQueue: Setting[Int] =
    Setting.int(
      "mappedFileSizeConsumeQueue",
      6000000,
      20 to 600000000,
      "Size of a consume queue file in bytes, a multiple of 20."
    )
  // RocketMQ: 72 hours too, but looked at once a day (deleteWhen); here all day.
  val fileReservedTime: Setting[Int] =
    Setting.int(
      "fileReservedTime",
      72,
      1 to 876000,
      "Hours that messages are kept; whole files go at once."
    )
  val maxCommitLogBytes: Setting[Long] =
    Setting.long(
      "maxCommitLogBytes",
      0L,
      0L,
      "Bytes of commit log above which the oldest files go, however young; 0: no limit."
    )
  val minFreeDiskBytes: Setting[Long] =
    Setting.long(
      "minFreeDiskBytes",
      64L * MiB,
      0L,
      "Free bytes of the disk below which sends are refused."
    )
  val messageIndexEnable: Setting[Boolean] =
    Setting.flag("messageIndexEnable", true, "Index messages by key and id, for queries.")
  // RocketMQ 5.x RebalanceLockManager: 60 s. Must stay above the clients' 30 s of trust.
  val lockMaxLiveTimeMs: Setting[Int] =
    Setting.int(
      "lockMaxLiveTimeMs",
      60000,
      1000 to 3600000,
      "Life of a queue lease after its last renewal."
    )
  val maxQueueLeases: Setting[Int] =
    Setting.int(
      "maxQueueLeases",
      100000,
      1 to 10000000,
      "Leases remembered at most; further queues are refused."
    )
  val maxSendStreams: Setting[Int] =
    Setting.int(
      "maxSendStreams",
      200000,
      1 to 10000000,
      "Streams of stamped sends remembered at most, about 300 bytes each; further streams are " +
        "refused."
    )
  val maxFrameBytes: Setting[Int] =
    Setting.int(
      "maxFrameBytes",
      16 * MiB,
      64 * KiB to 256 * MiB,
      "Largest frame, its length word included."
    )
  val maxInFlightRequests: Setting[Int] =
    Setting.int(
      "maxInFlightRequests",
      65536,
      1 to 10000000,
      "Unanswered requests of one connection, long polls included; further ones are answered " +
        "SYSTEM_BUSY."
    )
  val maxInFlightBytes: Setting[Int] =
    Setting.int(
      "maxInFlightBytes",
      32 * MiB,
      64 * KiB to 1024 * MiB,
      "Bytes of unanswered requests of one connection above which no more is read from it."
    )
  val maxRequestBytes: Setting[Long] =
    Setting.long(
      "maxRequestBytes",
      128L * MiB,
      1L * MiB,
      "Bytes of requests of all connections, coming in or unanswered; further ones wait."
    )
  val maxPullBytes: Setting[Int] =
    Setting.int(
      "maxPullBytes",
      4 * MiB,
      1024 to 128 * MiB,
      "Most bytes in the answer to one wide pull."
    )
  val maxPullMessages: Setting[Int] =
    Setting.int(
      "maxPullMessages",
      65536,
      1 to 1048576,
      "Most messages in the answer to one wide pull."
    )
  val maxParkedPulls: Setting[Int] =
    Setting.int(
      "maxParkedPulls",
      100000,
      1 to 10000000,
      "Long polls waiting at once; further ones are answered at once."
    )
  val enableRetryTopicV2: Setting[Boolean] =
    Setting.flag(
      "enableRetryTopicV2",
      false,
      "Name retry topics of pops %RETRY%GROUP+TOPIC instead of %RETRY%GROUP_TOPIC."
    )
  val serverChannelMaxIdleTimeSeconds: Setting[Int] =
    Setting.int(
      "serverChannelMaxIdleTimeSeconds",
      120,
      1 to 86400,
      "A connection silent for so long is closed."
    )
  val channelExpiredTimeout: Setting[Int] =
    Setting.int(
      "channelExpiredTimeout",
      120000,
      1000 to 86400000,
      "Milliseconds without a heartbeat after which a client leaves its groups."
    )
  val writeBufferHighWaterMark: Setting[Int] =
    Setting.int(
      "writeBufferHighWaterMark",
      8 * MiB,
      64 * KiB to 256 * MiB,
      "Unsent bytes of a connection above which its requests wait."
    )
  val maxUnsentBytes: Setting[Long] =
    Setting.long(
      "maxUnsentBytes",
      256L * MiB,
      1L * MiB,
      "Unsent bytes of all connections above which the one that reads least is closed."
    )
  val flushConsumerOffsetInterval: Setting[Int] =
    Setting.int(
      "flushConsumerOffsetInterval",
      5000,
      10 to 600000,
      "Milliseconds between writes of the committed offsets."
    )
  val flushFencedOffsetInterval: Setting[Int] =
    Setting.int(
      "flushFencedOffsetInterval",
      200,
      10 to 500,
      "The same for commits that carried a lease epoch."
    )
  val serverSelectorThreads: Setting[Int] =
    Setting.int(
      "serverSelectorThreads",
      0,
      0 to 256,
      "Network threads; 0: one per processor, at least two."
    )
  val messageDelayLevel: Setting[Vector[Long]] =
    Setting.times(
      "messageDelayLevel",
      "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
      "How long messages of delay level 1, 2, 3... wait; those that wait already are moved too."
    )
  // RocketMQ: 10000. After a crash, deliveries of so long before it are repeated.
  val flushDelayOffsetInterval: Setting[Int] =
    Setting.int(
      "flushDelayOffsetInterval",
      1000,
      10 to 600000,
      "Milliseconds between writes of how far delayed delivery is."
    )
  val timerMaxDelaySec: Setting[Int] =
    Setting.int(
      "timerMaxDelaySec",
      259200,
      1 to 31536000,
      "Longest delay of a message with a delivery time of its own."
    )
  val timerMaxWaiting: Setting[Int] =
    Setting.int(
      "timerMaxWaiting",
      1000000,
      1 to 100000000,
      "Messages that may wait for a delivery time of their own at once."
    )
  // RocketMQ: false.
  val enablePropertyFilter: Setting[Boolean] =
    Setting.flag("enablePropertyFilter", true, "Serve SQL92 filters over message properties.")
  val useServerSideResetOffset: Setting[Boolean] =
    Setting.flag(
      "useServerSideResetOffset",
      true,
      "Reset offsets here; false: ask the group's live consumers to do it."
    )

  val all: Seq[Setting[_]] = Seq(
    brokerName,
    brokerClusterName,
    brokerIP1,
    listenHost,
    listenPort,
    storePathRootDir,
    autoCreateTopicEnable,
    autoCreateSubscriptionGroup,
    defaultTopicQueueNums,
    maxQueuesPerTopic,
    maxMessageSize,
    flushDiskType,
    flushIntervalMs,
    mappedFileSizeCommitLog,
    mappedFileSizeConsumeQueue,
    fileReservedTime,
    maxCommitLogBytes,
    minFreeDiskBytes,
    messageIndexEnable,
    checkpointIntervalMs,
    scrubBytesPerSecond,
    lockMaxLiveTimeMs,
    maxQueueLeases,
    maxSendStreams,
    maxFrameBytes,
    maxConnections,
    maxConnectionsPerAddress,
    maxInFlightRequests,
    maxInFlightBytes,
    maxRequestBytes,
    maxPullBytes,
    maxPullMessages,
    maxParkedPulls,
    enableRetryTopicV2,
    serverChannelMaxIdleTimeSeconds,
    channelExpiredTimeout,
    writeBufferHighWaterMark,
    maxUnsentBytes,
    flushConsumerOffsetInterval,
    flushFencedOffsetInterval,
    serverSelectorThreads,
    messageDelayLevel,
    flushDelayOffsetInterval,
    timerMaxDelaySec,
    timerMaxWaiting,
    enablePropertyFilter,
    useServerSideResetOffset
  ) ++ security
}
