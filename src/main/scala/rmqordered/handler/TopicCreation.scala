package rmqordered.handler

import rmqordered.model.{Names, Perm, SubscriptionGroupConfig, TopicConfig}
import rmqordered.store.TopicTable

/** Topics that come into being by being used, as RocketMQ's TopicConfigManager makes them. */
final class TopicCreation(topics: TopicTable) {

  /** On a send to an unknown topic: a copy of the template the client names, if that allows it. */
  def onSend(topic: String, template: String, wantedQueues: Int): Option[TopicConfig] =
    topics.get(template).filter(config => Perm.isInherited(config.perm)).map { config =>
      val queues = Math.max(Math.min(wantedQueues, config.writeQueueNums), 0)
      topics.putIfAbsent(
        TopicConfig(topic, queues, queues, config.perm & ~Perm.Inherit, config.filterType)
      )
    }

  /**
   * The retry topic of a group, which its consumers subscribe to and mqadmin finds the group by.
   */
  def retryTopic(group: String, queues: Int): TopicConfig =
    ensure(Names.retryTopic(group), queues)

  /** The same of many groups, in one write. */
  def retryTopics(groups: Iterable[SubscriptionGroupConfig]): Unit =
    topics.putAllIfAbsent(groups.toSeq.map { group =>
      TopicConfig(Names.retryTopic(group.name), group.retryQueueNums, group.retryQueueNums)
    })

  /** Where messages of a topic come again that a group popped in vain. */
  def popRetryTopic(name: String): TopicConfig = ensure(name, 1)

  /** Where a group's given-up messages go. */
  def dlqTopic(group: String): TopicConfig = ensure(Names.dlqTopic(group), 1)

  private def ensure(topic: String, queues: Int): TopicConfig =
    topics.get(topic).getOrElse(topics.putIfAbsent(TopicConfig(topic, queues, queues)))
}
