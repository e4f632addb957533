package rmqordered.protocol

/** RocketMQ's response codes, under RocketMQ's names; those from 9000 on are this project's own. */
object ResponseCode {
  val Success = 0
  val SystemError = 1
  val SystemBusy = 2
  val RequestCodeNotSupported = 3
  val MessageIllegal = 13
  val ServiceNotAvailable = 14
  val NoPermission = 16
  val TopicNotExist = 17
  val PullNotFound = 19
  val PullRetryImmediately = 20
  val PullOffsetMoved = 21
  val QueryNotFound = 22
  val SubscriptionParseFailed = 23
  val SubscriptionNotExist = 24
  val SubscriptionNotLatest = 25
  val SubscriptionGroupNotExist = 26
  val InvalidParameter = 29
  val ConsumerNotOnline = 206
  val ConsumeMsgTimeout = 207
  val NoMessage = 208
  val PollingFull = 209
  val PollingTimeout = 210

  /** The lease epoch of a pull or commit is not the live one: somebody else owns the queue now. */
  val StaleLeaseEpoch = 9001

  /** A fenced commit would move the group's offset back. */
  val OffsetWentBack = 9002

  /** A stamped send goes on with a stream that the broker does not know. */
  val StreamUnknown = 9003

  /** Messages are missing before the first one of a stamped send. */
  val SequenceGap = 9004

  /** A stamped send repeats the stream's last message, and it is another one. */
  val ReplayDiverged = 9005

  /** A stamped send belongs to a batch before the stream's last one. */
  val StaleBatch = 9006

  /** A send names a run that read under a lease which is over: others write now. */
  val WriteFenced = 9007

  /** Where the group goes on was known once and is lost; the remark names the ways out. */
  val OffsetsLost = 9008
}
