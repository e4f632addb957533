package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.model.TopicConfig
import rmqordered.store.{KvTable, TopicTable}
import rmqordered.util.Json

/** The name server's half: where topics are. There is one broker, this one. */
final class RouteHandler(topics: TopicTable, pairs: KvTable, identity: BrokerIdentity) {

  /**
   * 105. Always strict JSON: old and new Java clients read it alike. The queues that an operator
   * has declared for an ordered topic are told, as by a name server with orderMessageEnable.
   */
  def routeInfo(call: Call): Unit = {
    val name = call.text("topic")
    val topic = topics.get(name).getOrElse(throw Failures.noRoute(name))
    val root = Json.obj()
    root.putArray("brokerDatas").add(brokerData())
    root.putObject("filterServerTable")
    pairs.get(RouteHandler.OrderNamespace, name).foreach(root.put("orderTopicConf", _))
    root.putArray("queueDatas").add(queueData(topic))
    root.set[JsonNode](Features.FieldName, Json.texts(Features.announced))
    call.answer(Response.json(root))
  }

  /** 106. */
  def clusterInfo(call: Call): Unit = {
    val root = Json.obj()
    root.putObject("brokerAddrTable").set[JsonNode](identity.brokerName, brokerData())
    root.putObject("clusterAddrTable").putArray(identity.clusterName).add(identity.brokerName)
    call.answer(Response.json(root))
  }

  /** 206. */
  def topicList(call: Call): Unit =
    call.answer(Response.json(topicListBody(namesFor(call))))

  /** 224. */
  def topicsByCluster(call: Call): Unit = {
    val isOurs = call.text("cluster") == identity.clusterName
    call.answer(Response.json(topicListBody(if (isOurs) namesFor(call) else Nil)))
  }

  private def namesFor(call: Call): Seq[String] = topics.all.map(_.name).filter(call.maySee)

  private def topicListBody(names: Seq[String]): ObjectNode = {
    val root = Json.obj()
    root.set[JsonNode]("topicList", Json.texts(names))
    root
  }

  private def brokerData(): ObjectNode = {
    val node = Json
      .obj()
      .put("brokerName", identity.brokerName)
      .put("cluster", identity.clusterName)
      .put("enableActingMaster", false)
    node.putObject("brokerAddrs").put("0", identity.address)
    node
  }

  private def queueData(topic: TopicConfig): ObjectNode =
    Json
      .obj()
      .put("brokerName", identity.brokerName)
      .put("perm", topic.perm)
      .put("readQueueNums", topic.readQueueNums)
      .put("topicSysFlag", topic.sysFlag)
      .put("writeQueueNums", topic.writeQueueNums)
}

object RouteHandler {
  private val OrderNamespace = "ORDER_TOPIC_CONFIG"
}
