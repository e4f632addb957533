package rmqordered.model

/** RocketMQ's address of a queue. Queue ids count from 0 within one topic of one broker. */
final case class MessageQueue(topic: String, brokerName: String, queueId: Int) {
  override def toString: String = s"$topic@$brokerName:$queueId"
}

/** A queue of this broker, where the broker's name goes without saying. */
final case class QueueKey(topic: String, queueId: Int) {
  override def toString: String = s"$topic:$queueId"
}
