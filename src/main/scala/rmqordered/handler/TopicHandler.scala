package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.model.{Names, QueueKey, TopicConfig}
import rmqordered.offset.ConsumerOffsets
import rmqordered.stats.Traffic
import rmqordered.store.{MessageStore, TopicTable}
import rmqordered.util.{Json, WorkTurns}

/** Administration of topics. */
final class TopicHandler(
    store: MessageStore,
    offsets: ConsumerOffsets,
    traffic: Traffic,
    identity: BrokerIdentity,
    maxQueues: Int,
    maxAttributeChars: Int,
    onDeleted: String => Unit,
    turns: WorkTurns
) {
  private val topics = store.topics

  /** 17. */
  def updateOrCreate(call: Call): Unit = {
    val name = call.text("topic")
    Names.topicProblem(name).foreach(problem => throw Failures.invalid(problem))
    ensureNotSystem(name)
    val previous = topics.get(name)
    topics.put(
      TopicConfig(
        name = name,
        readQueueNums = queueNums(call, "readQueueNums"),
        writeQueueNums = queueNums(call, "writeQueueNums"),
        perm = perm(call),
        filterType = filterType(call),
        sysFlag = call.optionalInt("topicSysFlag").getOrElse(0),
        order = call.optionalFlag("order").getOrElse(false),
        attributes = attributes(call, previous.fold(Map.empty[String, String])(_.attributes))
      )
    )
    call.answer(Response.ok)
  }

  private def queueNums(call: Call, field: String): Int = {
    val wanted = call.int(field)
    if (wanted < 0 || wanted > maxQueues)
      throw Failures.invalid(s"$field must be from 0 to $maxQueues, found $wanted.")
    wanted
  }

  private def filterType(call: Call): String = {
    val wanted = call.optional("topicFilterType").getOrElse(TopicConfig.SingleTag)
    Failures.ensureNone(Names.textProblem("topicFilterType", wanted))
    wanted
  }

  private def perm(call: Call): Int = {
    val wanted = call.int("perm")
    if (wanted < 0 || wanted >= 8) throw Failures.invalid(s"perm must be below 8, found $wanted.")
    wanted
  }

  /** `+key=value,-key`: changes to the attributes a topic has. */
  private def attributes(call: Call, before: Map[String, String]): Map[String, String] = {
    val after = changed(call, before)
    val chars = after.iterator.map { case (key, value) => key.length + value.length }.sum
    if (chars > maxAttributeChars)
      throw Failures.invalid(
        s"The topic's attributes have $chars characters, at most $maxAttributeChars are kept."
      )
    after
  }

  private def changed(call: Call, before: Map[String, String]): Map[String, String] =
    call.optional("attributes").fold(Seq.empty[String])(_.split(',').toSeq).foldLeft(before) {
      (found, change) =>
        change.split("=", 2) match {
          case Array(key, value) if key.startsWith("+") => found.updated(key.tail.trim, value.trim)
          case Array(key) if key.startsWith("-") => found - key.tail.trim
          case _ =>
            throw Failures.invalid(s"Attributes are written +key=value or -key, found '$change'.")
        }
    }

  /** 215. */
  def delete(call: Call): Unit = {
    val name = call.text("topic")
    Names.topicProblem(name).foreach(problem => throw Failures.invalid(problem))
    ensureNotSystem(name)
    store.deleteTopic(name)
    offsets.removeTopic(name)
    onDeleted(name)
    call.answer(Response.ok)
  }

  /** 216. The name server's table is the broker's own: 215 did the work. */
  def deleteInNameServer(call: Call): Unit = call.answer(Response.ok)

  /** 351. */
  def get(call: Call): Unit = {
    val name = call.text("topic")
    val topic = topics.get(name).getOrElse(throw Failures.topicNotExist(name))
    call.answer(Response.json(TopicTable.encode(topic)))
  }

  /** 21. All topics at once; without totalTopicNum Java asks for no second page. */
  def getAll(call: Call): Unit = {
    val root = Json.obj()
    root.set[JsonNode]("dataVersion", Bodies.dataVersion())
    root.set[JsonNode]("mappingDataVersion", Bodies.dataVersion())
    val table = root.putObject("topicConfigTable")
    topics.all.foreach(topic => table.set[JsonNode](topic.name, TopicTable.encode(topic)))
    root.putObject("topicQueueMappingDetailMap")
    root.putObject("topicQueueMappingInfoMap")
    call.answer(Response.json(root))
  }

  /** 202. */
  def stats(call: Call): Unit = {
    val name = call.text("topic")
    val topic = topics.get(name).getOrElse(throw Failures.topicNotExist(name))
    val keys = (0 until topic.queueNums).iterator.map(QueueKey(name, _))
    call.inTurns(turns, keys) { key =>
      Bodies.queueEntry(identity.messageQueue(key), queueStats(key))
    } { entries =>
      val rest = Json.obj().put("topicPutTps", traffic.storedRate(name))
      call.answer(Bodies.queueTable("offsetTable", entries, rest))
    }
  }

  private def queueStats(key: QueueKey): ObjectNode = {
    val max = store.maxOffset(key)
    Json
      .obj()
      .put("lastUpdateTimestamp", store.storeTimestamp(key, max - 1).getOrElse(0L))
      .put("maxOffset", max)
      .put("minOffset", store.minOffset(key))
  }

  private def ensureNotSystem(name: String): Unit =
    if (Names.isSystemTopic(name) || topics.isSystem(name))
      throw Failures.invalid(s"The topic[$name] is conflict with system topic.")
}
