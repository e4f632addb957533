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

  /** The lease epoch of a pull or commit is not the live one: somebody else owns the queue now. */
  val StaleLeaseEpoch = 9001

  /** A fenced commit would move the group's offset back. */
  val OffsetWentBack = 9002
}
