package rmqordered.group

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.model.SubscriptionGroupConfig
import rmqordered.util.{Json, SmallFile}

/**
 * The configuration of the consumer groups. A change is on disk before it is visible. Thread-safe:
 * reads see an immutable snapshot, changes are serialised.
 */
final class SubscriptionGroups(file: SmallFile, autoCreate: Boolean) {
  import SubscriptionGroups._

  @volatile private var groups: Map[String, SubscriptionGroupConfig] =
    Json.read(file).fold(Map.empty[String, SubscriptionGroupConfig])(load)

  def get(group: String): Option[SubscriptionGroupConfig] = groups.get(group)

  def all: Seq[SubscriptionGroupConfig] = groups.values.toSeq.sortBy(_.name)

  /** The group's configuration, created with defaults if that is allowed. */
  def getOrCreate(group: String): Option[SubscriptionGroupConfig] =
    get(group).orElse(Option.when(autoCreate)(create(group)))

  private def create(group: String): SubscriptionGroupConfig = synchronized {
    get(group).getOrElse {
      val config = SubscriptionGroupConfig(group)
      put(config)
      config
    }
  }

  def put(config: SubscriptionGroupConfig): Unit = synchronized {
    save(groups.updated(config.name, config))
    logger.info("consumer group set group={}", config.name)
  }

  def delete(group: String): Unit = synchronized {
    if (groups.contains(group)) {
      save(groups - group)
      logger.info("consumer group deleted group={}", group)
    }
  }

  private def save(changed: Map[String, SubscriptionGroupConfig]): Unit = {
    val root = Json.obj()
    val table = root.putObject("subscriptionGroupTable")
    changed.values.foreach(config => table.set[JsonNode](config.name, encode(config)))
    file.replace(Json.bytes(root))
    groups = changed
  }

  private def load(root: ObjectNode): Map[String, SubscriptionGroupConfig] =
    root
      .path("subscriptionGroupTable")
      .properties()
      .asScala
      .map(entry => entry.getKey -> decode(entry.getValue))
      .toMap
}

object SubscriptionGroups {
  private val logger = LoggerFactory.getLogger(classOf[SubscriptionGroups])

  /** A group in RocketMQ's own JSON, which is also the form of the wire. */
  def encode(config: SubscriptionGroupConfig): ObjectNode = {
    val node = Json.obj()
    node.putObject("attributes")
    node.putObject("groupRetryPolicy").put("type", "CUSTOMIZED")
    node
      .put("brokerId", 0)
      .put("consumeBroadcastEnable", config.consumeBroadcastEnable)
      .put("consumeEnable", config.consumeEnable)
      .put("consumeFromMinEnable", config.consumeFromMinEnable)
      .put("consumeMessageOrderly", config.consumeMessageOrderly)
      .put("consumeTimeoutMinute", config.consumeTimeoutMinute)
      .put("groupName", config.name)
      .put("groupSysFlag", 0)
      .put("notifyConsumerIdsChangedEnable", config.notifyConsumerIdsChangedEnable)
      .put("retryMaxTimes", config.retryMaxTimes)
      .put("retryQueueNums", config.retryQueueNums)
      .put("whichBrokerWhenConsumeSlowly", 1)
  }

  def decode(node: JsonNode): SubscriptionGroupConfig = {
    val default = SubscriptionGroupConfig(node.path("groupName").asText())
    SubscriptionGroupConfig(
      name = default.name,
      consumeEnable = node.path("consumeEnable").asBoolean(default.consumeEnable),
      consumeFromMinEnable =
        node.path("consumeFromMinEnable").asBoolean(default.consumeFromMinEnable),
      consumeBroadcastEnable =
        node.path("consumeBroadcastEnable").asBoolean(default.consumeBroadcastEnable),
      consumeMessageOrderly =
        node.path("consumeMessageOrderly").asBoolean(default.consumeMessageOrderly),
      retryQueueNums = node.path("retryQueueNums").asInt(default.retryQueueNums),
      retryMaxTimes = node.path("retryMaxTimes").asInt(default.retryMaxTimes),
      notifyConsumerIdsChangedEnable =
        node.path(
          "notifyConsumerIdsChangedEnable"
        ).asBoolean(default.notifyConsumerIdsChangedEnable),
      consumeTimeoutMinute = node.path("consumeTimeoutMinute").asInt(default.consumeTimeoutMinute)
    )
  }
}
