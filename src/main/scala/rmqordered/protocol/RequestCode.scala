package rmqordered.protocol

/** RocketMQ's request codes that this broker knows, under RocketMQ's names. */
object RequestCode {
  val SendMessage = 10
  val PullMessage = 11
  val QueryMessage = 12
  val QueryConsumerOffset = 14
  val UpdateConsumerOffset = 15
  val UpdateAndCreateTopic = 17
  val GetAllTopicConfig = 21
  val GetBrokerRuntimeInfo = 28
  val SearchOffsetByTimestamp = 29
  val GetMaxOffset = 30
  val GetMinOffset = 31
  val GetEarliestMsgStoreTime = 32
  val ViewMessageById = 33
  val HeartBeat = 34
  val UnregisterClient = 35
  val ConsumerSendMsgBack = 36
  val EndTransaction = 37
  val GetConsumerListByGroup = 38
  val NotifyConsumerIdsChanged = 40
  val LockBatchMq = 41
  val UnlockBatchMq = 42
  val CheckClientConfig = 46
  val PutKvConfig = 100
  val GetKvConfig = 101
  val DeleteKvConfig = 102
  val GetRouteInfoByTopic = 105
  val GetBrokerClusterInfo = 106
  val UpdateAndCreateSubscriptionGroup = 200
  val GetAllSubscriptionGroupConfig = 201
  val GetTopicStatsInfo = 202
  val GetConsumerConnectionList = 203
  val GetProducerConnectionList = 204
  val GetAllTopicListFromNameServer = 206
  val DeleteSubscriptionGroup = 207
  val GetConsumeStats = 208
  val DeleteTopicInBroker = 215
  val DeleteTopicInNameServer = 216
  val GetKvListByNamespace = 219
  val ResetConsumerClientOffset = 220
  val InvokeBrokerToResetOffset = 222
  val GetTopicsByCluster = 224
  val UpdateAndCreateSubscriptionGroupList = 225
  val QueryTopicConsumeByWho = 300
  val GetConsumerRunningInfo = 307
  val ConsumeMessageDirectly = 309
  val SendMessageV2 = 310
  val SendBatchMessage = 320
  val SendReplyMessage = 324
  val SendReplyMessageV2 = 325
  val PushReplyMessageToClient = 326
  val QueryTopicsByConsumer = 343
  val QuerySubscriptionByConsumer = 345
  val GetTopicConfig = 351
  val GetSubscriptionGroupConfig = 352
  val LitePullMessage = 361
  val QueryAssignment = 400
  val SetMessageRequestMode = 401
  val PopMessage = 200050
  val AckMessage = 200051
  val ChangeMessageInvisibleTime = 200053
  val Notification = 200054
  val PollingInfo = 200055
  val BatchAckMessage = 200151

  /** This project's own: who holds which queue, and who held it before. Unused by RocketMQ. */
  val GetQueueLeases = 19001

  /** This project's own: the last message of a stream of stamped sends. Unused by RocketMQ. */
  val GetSendStream = 19002

  /** This project's own: what is handed out by pops, per group and queue. Unused by RocketMQ. */
  val GetPopState = 19010
}
