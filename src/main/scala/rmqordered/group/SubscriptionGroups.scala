package rmqordered.group

import java.io.IOException
import java.util.concurrent.atomic.AtomicReference

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.config.LimitSettings
import rmqordered.model.SubscriptionGroupConfig
import rmqordered.util.{Cost, Json, RememberedTable, SmallFile}

/**
 * The configuration of the consumer groups.
 *
 * What an administrator sets is on disk before it is visible. A group that clients create by naming
 * it is there at once and written behind, with all others that came meanwhile: it has the defaults,
 * so whoever names it after a crash creates the same again. No request of a client waits for the
 * disk because of a group, and none is refused because the disk is full.
 *
 * Thread-safe: reads see an immutable snapshot; writes of the file are made one at a time and never
 * keep a creation waiting.
 */
final class SubscriptionGroups(
    file: SmallFile,
    autoCreate: Boolean,
    memory: RememberedTable = new RememberedTable("groups", LimitSettings.default.groupBytes)
) {
  import SubscriptionGroups._

  private val groups = new AtomicReference[Map[String, SubscriptionGroupConfig]](
    Json.read(file).fold(Map.empty[String, SubscriptionGroupConfig])(load)
  )
  // Set after a creation and cleared before a write takes its snapshot: none is left out.
  @volatile private var isUnwritten = false

  groups.get().keysIterator.foreach(name => memory.keep(costOf(name).bytes))

  def get(group: String): Option[SubscriptionGroupConfig] = groups.get().get(group)

  def all: Seq[SubscriptionGroupConfig] = groups.get().values.toSeq.sortBy(_.name)

  /**
   * The group's configuration, created with defaults if that is allowed; memory only.
   *
   * @throws rmqordered.util.TableFull
   *   when no more can be remembered
   */
  def getOrCreate(group: String): Option[SubscriptionGroupConfig] =
    get(group).orElse(Option.when(autoCreate)(create(group)))

  private def create(group: String): SubscriptionGroupConfig = {
    val made = SubscriptionGroupConfig(group)
    val cost = costOf(group)
    memory.take(cost)
    val config =
      groups.updateAndGet(all => if (all.contains(group)) all else all.updated(group, made))(group)
    isUnwritten = true
    if (config eq made) logger.info("consumer group created group={}", group)
    else memory.give(cost)
    config
  }

  /**
   * Sets groups, all in one write.
   *
   * @throws rmqordered.util.TableFull
   *   when no more can be remembered
   */
  def put(configs: SubscriptionGroupConfig*): Unit = synchronized {
    val set = configs.map(config => config.name -> config)
    // One that a client creates meanwhile is counted twice until the next start: too much, not too little.
    val cost = set.toMap.keys.filterNot(groups.get().contains).map(costOf)
      .foldLeft(Cost.none)((all, one) => Cost(all.bytes + one.bytes, Nil))
    memory.take(cost)
    try change(_ ++ set)
    catch {
      case error: Throwable =>
        memory.give(cost)
        throw error
    }
    configs.foreach(config => logger.info("consumer group set group={}", config.name))
  }

  def delete(group: String): Unit = synchronized {
    if (groups.get().contains(group)) {
      change(_ - group)
      memory.give(costOf(group))
      logger.info("consumer group deleted group={}", group)
    }
  }

  /** Periodic: writes the groups that clients have created since the last write. */
  def flush(): Unit = synchronized {
    if (isUnwritten)
      try change(identity)
      catch {
        case error: IOException =>
          logger.error("new consumer groups could not be written file={}", file.name, error)
      }
  }

  /** Writes what is there with a change made to it; only then the change is visible. */
  private def change(
      changed: Map[String, SubscriptionGroupConfig] => Map[String, SubscriptionGroupConfig]
  ): Unit = {
    isUnwritten = false
    try save(changed(groups.get()))
    catch {
      case error: IOException =>
        isUnwritten = true
        throw error
    }
    val _ = groups.updateAndGet(all => changed(all))
  }

  private def costOf(name: String): Cost =
    Cost(2 * RememberedTable.EntryBytes + 2 * RememberedTable.text(name), Nil)

  private def save(wanted: Map[String, SubscriptionGroupConfig]): Unit = {
    val root = Json.obj()
    val table = root.putObject("subscriptionGroupTable")
    wanted.values.foreach(config => table.set[JsonNode](config.name, encode(config)))
    file.replace(Json.bytes(root))
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
