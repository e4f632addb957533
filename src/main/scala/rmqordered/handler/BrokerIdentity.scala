package rmqordered.handler

import rmqordered.model.{HostAddress, MessageQueue, QueueKey}

/**
 * Who this broker is to its clients.
 *
 * @param address
 *   host:port that routes hand out
 * @param storeHost
 *   the same as it is written into records
 */
final case class BrokerIdentity(
    brokerName: String,
    clusterName: String,
    address: String,
    storeHost: HostAddress
) {
  def messageQueue(key: QueueKey): MessageQueue = MessageQueue(key.topic, brokerName, key.queueId)
}

/** What this broker can do that Apache RocketMQ cannot; announced in route and lock answers. */
object Features {
  val announced: Seq[String] =
    Seq("leaseEpoch", "widePull", "idempotentSend", "stampedRequest", "fencedWrite")
  val FieldName = "rmqOrderedFeatures"
}
