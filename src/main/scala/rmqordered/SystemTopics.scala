package rmqordered

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.model.{Names, Perm, TopicConfig}

/** The topics that a broker has from the start. */
private[rmqordered] object SystemTopics {

  // RocketMQ's TopicConfig gives a topic without settings of its own 16 queues.
  private val ClusterTopicQueues = 16

  /**
   * Topics RocketMQ's brokers own too: the template for new ones, and one per cluster and broker.
   */
  def of(config: BrokerConfig): Seq[TopicConfig] = {
    val all = Perm.ReadWrite | Perm.Inherit
    val queues = config(Settings.defaultTopicQueueNums)
    val template = Option.when(config(Settings.autoCreateTopicEnable))(
      TopicConfig(Names.AutoCreateTopic, queues, queues, all)
    )
    template.toSeq ++ Seq(
      TopicConfig(config(Settings.brokerClusterName), ClusterTopicQueues, ClusterTopicQueues, all),
      TopicConfig(config(Settings.brokerName), 1, 1, all)
    ) ++ waitingRooms(config) :+ TopicConfig(Names.TraceTopic, 1, 1)
  }

  private def waitingRooms(config: BrokerConfig): Seq[TopicConfig] = {
    val levels = config(Settings.messageDelayLevel).length
    Seq(
      TopicConfig(Names.ScheduleTopic, levels, levels),
      TopicConfig(Names.TimerTopic, 1, 1),
      TopicConfig(Names.PopLogTopic, 1, 1)
    )
  }
}
