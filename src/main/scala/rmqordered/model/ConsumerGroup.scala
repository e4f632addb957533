package rmqordered.model

/** A consumer group's configuration; defaults as RocketMQ 5.x SubscriptionGroupConfig. */
final case class SubscriptionGroupConfig(
    name: String,
    consumeEnable: Boolean = true,
    consumeFromMinEnable: Boolean = true,
    consumeBroadcastEnable: Boolean = true,
    consumeMessageOrderly: Boolean = false,
    retryQueueNums: Int = 1,
    retryMaxTimes: Int = 16,
    notifyConsumerIdsChangedEnable: Boolean = true,
    consumeTimeoutMinute: Int = 15
)

/** How the members of a group consume, in RocketMQ's own enum names. */
final case class ConsumeMode(
    consumeType: String,
    messageModel: String,
    consumeFromWhere: String
) {
  def isBroadcasting: Boolean = messageModel == ConsumeMode.Broadcasting
}

object ConsumeMode {
  val Broadcasting = "BROADCASTING"
  val Clustering = "CLUSTERING"
}

/** Who is at the other end of a connection, as its heartbeat says. */
final case class ClientIdentity(clientId: String, language: String, version: Int)
