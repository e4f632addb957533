package rmqordered.store

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.config.LimitSettings
import rmqordered.model.TopicConfig
import rmqordered.util.{Cost, Json, RememberedTable, SmallFile}

/**
 * The broker's topics. System topics come with the program; the others are kept in a file that is
 * replaced before a change is visible, so that a message's topic is never less durable than the
 * message.
 *
 * A deleted topic leaves a tombstone, the end of the commit log at that moment: older records of
 * that name belong to the deleted topic and recovery passes over them, even if a topic of the same
 * name exists again.
 *
 * Thread-safe: reads see an immutable snapshot, changes are serialised.
 */
final class TopicTable(
    file: SmallFile,
    system: Seq[TopicConfig],
    memory: RememberedTable = new RememberedTable("topics", LimitSettings.default.topicBytes)
) {
  import TopicTable._

  @volatile private var state: State = Json.read(file).fold(State.empty)(State.decode)

  memory.keep(state.cost)

  def get(topic: String): Option[TopicConfig] = state.topics.get(topic).orElse(builtIn.get(topic))

  def contains(topic: String): Boolean = get(topic).isDefined

  def isSystem(topic: String): Boolean = builtIn.contains(topic)

  def all: Seq[TopicConfig] = (builtIn ++ state.topics).values.toSeq.sortBy(_.name)

  def isEmpty: Boolean = state.topics.isEmpty && state.tombstones.isEmpty

  /** Creates or replaces a topic. */
  def put(topic: TopicConfig): Unit = synchronized {
    save(state.copy(topics = state.topics.updated(topic.name, topic)))
    logger.info(
      "topic set topic={} readQueues={} writeQueues={} perm={}",
      topic.name,
      topic.readQueueNums,
      topic.writeQueueNums,
      topic.perm
    )
  }

  /** Creates a topic unless it exists; gives the one that exists then. */
  def putIfAbsent(topic: TopicConfig): TopicConfig = synchronized {
    get(topic.name).getOrElse {
      put(topic)
      topic
    }
  }

  /** Creates those of the topics that do not exist, all in one write. */
  def putAllIfAbsent(wanted: Seq[TopicConfig]): Unit = synchronized {
    val missing = wanted.filterNot(topic => contains(topic.name))
    if (missing.nonEmpty) {
      save(state.copy(topics = state.topics ++ missing.map(topic => topic.name -> topic)))
      missing.foreach(topic => logger.info("topic created topic={}", topic.name))
    }
  }

  /** Forgets a topic; records of that name below `logEnd` are dead from now on. */
  def remove(topic: String, logEnd: Long): Unit = synchronized {
    if (state.topics.contains(topic)) {
      save(State(state.topics - topic, state.tombstones.updated(topic, logEnd)))
      logger.info("topic deleted topic={}", topic)
    }
  }

  /** Whether a record of that topic at that place in the commit log is to be served. */
  def isAlive(topic: String, commitLogOffset: Long): Boolean =
    contains(topic) && commitLogOffset >= state.tombstones.getOrElse(topic, 0L)

  /** After recovery cut the log: a tombstone beyond its end would bury messages yet to come. */
  def lowerTombstones(logEnd: Long): Unit = synchronized {
    if (state.tombstones.values.exists(_ > logEnd))
      save(state.copy(tombstones = state.tombstones.map { case (k, v) =>
        k -> Math.min(v, logEnd)
      }))
  }

  private def save(changed: State): Unit = {
    val (before, after) = (Cost(state.cost, Nil), Cost(changed.cost, Nil))
    memory.replace(before, after)
    try file.replace(Json.bytes(changed.encode))
    catch {
      case error: Throwable =>
        memory.replace(after, before)
        throw error
    }
    state = changed
  }

  private lazy val builtIn: Map[String, TopicConfig] =
    system.map(topic => topic.name -> topic).toMap
}

object TopicTable {
  private val logger = LoggerFactory.getLogger(classOf[TopicTable])

  private final case class State(topics: Map[String, TopicConfig], tombstones: Map[String, Long]) {

    /** About what it takes; a deletion never takes more. */
    lazy val cost: Long =
      topics.valuesIterator.map(costOf).sum + tombstones.keysIterator.map(costOf).sum

    def encode: ObjectNode = {
      val root = Json.obj()
      val table = root.putObject("topicConfigTable")
      topics.values.foreach(topic => table.set[JsonNode](topic.name, TopicTable.encode(topic)))
      val dead = root.putObject("tombstones")
      tombstones.foreach { case (topic, logEnd) => dead.put(topic, logEnd) }
      root
    }
  }

  private def costOf(topic: TopicConfig): Long =
    RememberedTable.EntryBytes + costOf(topic.name) + RememberedTable.text(topic.filterType) +
      topic.attributes.iterator.map { case (key, value) =>
        RememberedTable.EntryBytes + RememberedTable.text(key) + RememberedTable.text(value)
      }.sum

  private def costOf(name: String): Long =
    RememberedTable.EntryBytes + RememberedTable.text(name)

  private object State {
    val empty: State = State(Map.empty, Map.empty)

    def decode(root: ObjectNode): State =
      State(
        root.path("topicConfigTable").properties().asScala.map(e =>
          e.getKey -> TopicTable.decode(e.getValue)
        ).toMap,
        root.path("tombstones").properties().asScala.map(e => e.getKey -> e.getValue.asLong()).toMap
      )
  }

  /** A topic in RocketMQ's own JSON, which is also the form of the wire. */
  def encode(topic: TopicConfig): ObjectNode = {
    val node = Json.obj()
    val attributes = node.putObject("attributes")
    topic.attributes.foreach { case (key, value) => attributes.put(key, value) }
    node
      .put("order", topic.order)
      .put("perm", topic.perm)
      .put("readQueueNums", topic.readQueueNums)
      .put("topicFilterType", topic.filterType)
      .put("topicName", topic.name)
      .put("topicSysFlag", topic.sysFlag)
      .put("writeQueueNums", topic.writeQueueNums)
  }

  private def decode(node: JsonNode): TopicConfig = TopicConfig(
    name = node.path("topicName").asText(),
    readQueueNums = node.path("readQueueNums").asInt(),
    writeQueueNums = node.path("writeQueueNums").asInt(),
    perm = node.path("perm").asInt(),
    filterType = node.path("topicFilterType").asText(TopicConfig.SingleTag),
    sysFlag = node.path("topicSysFlag").asInt(),
    order = node.path("order").asBoolean(),
    attributes =
      node.path("attributes").properties().asScala.map(e => e.getKey -> e.getValue.asText()).toMap
  )
}
