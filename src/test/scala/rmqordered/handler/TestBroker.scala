package rmqordered.handler

import java.net.InetSocketAddress
import java.nio.file.Path
import java.util.concurrent.{Executor, LinkedBlockingQueue, TimeUnit}

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.BrokerCore
import rmqordered.config.{BrokerConfig, LimitSettings}
import rmqordered.model.HostAddress
import rmqordered.protocol.{
  Body,
  DecodedRecord,
  ExtFields,
  RecordReader,
  RemotingCommand,
  RequestCode
}
import rmqordered.store.{DataDirectory, DiskFiles, FileLayer, StoreFixture}
import rmqordered.util.{Json, ManualClock}

/** A broker without sockets: requests go straight to the dispatcher, answers into a queue. */
final class TestBroker(
    folder: Path = StoreFixture.temporaryFolder(),
    settings: Map[String, String] = Map.empty,
    files: FileLayer = DiskFiles,
    val clock: ManualClock = new ManualClock(),
    worker: Executor = _.run(),
    leaseWorker: Executor = _.run(),
    limits: LimitSettings = LimitSettings()
) {
  private val directory = DataDirectory.open(folder, files)
  private val identity = BrokerIdentity(
    "broker-a",
    "DefaultCluster",
    "127.0.0.1:9876",
    HostAddress.of(new InetSocketAddress("127.0.0.1", 9876))
  )
  private val small = Map("mappedFileSizeCommitLog" -> "5000000")
  val core = new BrokerCore(
    BrokerConfig.of(small ++ settings),
    clock,
    directory,
    identity,
    worker,
    leaseWorker,
    limits
  )

  def connect(): TestClient = new TestClient(this)

  /** Does what the timer would do, or only what it does at least so often. */
  def tick(atLeastEveryMs: Long = Long.MaxValue): Unit =
    core.periodicTasks.filter(_.everyMs <= atLeastEveryMs).foreach(_.run())

  def close(): Unit = {
    core.close()
    directory.close()
  }
}

/** One client, and the connection it speaks on. */
final class TestClient(broker: TestBroker) extends Connection {
  private val received = new LinkedBlockingQueue[RemotingCommand]()
  private var opaque = 0
  @volatile var isClosed = false
  // Whether what the broker says by itself is taken; else what is to be done when it is.
  @volatile var isTaking = true
  @volatile var untaken: Vector[() => Unit] = Vector.empty

  override val remoteSocket: InetSocketAddress = new InetSocketAddress("10.0.0.1", 5555)
  override def send(command: RemotingCommand): Unit = received.put(command)
  override def sendThen(command: RemotingCommand, taken: () => Unit): Unit = {
    send(command)
    if (isTaking) taken() else untaken :+= taken
  }
  override def whenWritable(task: () => Unit): Unit = task()
  override def close(): Unit = isClosed = true

  def disconnect(): Unit = {
    passPause()
    broker.core.disconnected(this)
  }

  /** Later than a group's last news, so that the next one comes at once. */
  private def passPause(): Unit = broker.clock.advance(GroupNews.PauseMs)

  /** Sends a request and gives its id. */
  def request(
      code: Int,
      fields: Map[String, String] = Map.empty,
      body: Array[Byte] = Array.emptyByteArray,
      language: String = "PYTHON",
      flag: Int = 0
  ): Int = {
    opaque += 1
    if (TestClient.membership(code)) passPause()
    val ext = Some(ExtFields(fields.toSeq: _*))
    broker.core.received(
      RemotingCommand(code, language, 479, opaque, flag, None, ext, Body(body)),
      this
    )
    opaque
  }

  /** The next command from the broker, within a deadline. */
  def receive(): RemotingCommand = {
    val command = received.poll(10, TimeUnit.SECONDS)
    if (command == null) throw new AssertionError("the broker sent nothing")
    command
  }

  def hasAnswer: Boolean = !received.isEmpty

  def call(code: Int, fields: (String, String)*): RemotingCommand = {
    request(code, fields.toMap)
    receive()
  }

  def callJson(code: Int, body: ObjectNode): RemotingCommand = {
    request(code, body = Json.bytes(body))
    receive()
  }

  def send(topic: String, queueId: Int, body: String, properties: String = ""): RemotingCommand = {
    request(
      RequestCode.SendMessageV2,
      TestClient.sendFields(topic, queueId, properties),
      body.getBytes
    )
    receive()
  }

  def createTopic(name: String, queues: Int): Unit = {
    val answer = call(
      RequestCode.UpdateAndCreateTopic,
      "topic" -> name,
      "readQueueNums" -> queues.toString,
      "writeQueueNums" -> queues.toString,
      "perm" -> "6"
    )
    if (answer.code != 0) throw new AssertionError(s"topic not created: $answer")
  }

  def heartbeat(clientId: String, group: String, topics: String*): RemotingCommand =
    callJson(RequestCode.HeartBeat, TestClient.heartbeat(clientId, group, topics))

  def lock(clientId: String, group: String, topic: String, queueIds: Int*): RemotingCommand =
    callJson(RequestCode.LockBatchMq, TestClient.lockBody(clientId, group, topic, queueIds))

  def unlock(clientId: String, group: String, topic: String, queueIds: Int*): RemotingCommand =
    callJson(RequestCode.UnlockBatchMq, TestClient.lockBody(clientId, group, topic, queueIds))
}

object TestClient {
  private val membership = Set(RequestCode.HeartBeat, RequestCode.UnregisterClient)

  def sendFields(topic: String, queueId: Int, properties: String = ""): Map[String, String] = Map(
    "a" -> "pg",
    "b" -> topic,
    "c" -> "TBW102",
    "d" -> "4",
    "e" -> queueId.toString,
    "f" -> "0",
    "g" -> "1700000000000",
    "h" -> "0",
    "i" -> properties,
    "j" -> "0"
  )

  def pullFields(
      topic: String,
      queueId: Int,
      start: Long,
      extra: (String, String)*
  ): Map[String, String] =
    Map(
      "consumerGroup" -> "g",
      "topic" -> topic,
      "queueId" -> queueId.toString,
      "queueOffset" -> start.toString,
      "maxMsgNums" -> "32",
      "sysFlag" -> "4",
      "commitOffset" -> "0",
      "suspendTimeoutMillis" -> "15000",
      "subscription" -> "*",
      "subVersion" -> "0"
    ) ++ extra

  def heartbeat(clientId: String, group: String, topics: Seq[String]): ObjectNode = {
    val root = Json.obj().put("clientID", clientId)
    val consumer = root.putArray("consumerDataSet").addObject()
    consumer
      .put("groupName", group)
      .put("consumeType", "CONSUME_PASSIVELY")
      .put("messageModel", "CLUSTERING")
      .put("consumeFromWhere", "CONSUME_FROM_LAST_OFFSET")
    val subscriptions = consumer.putArray("subscriptionDataSet")
    topics.foreach { topic =>
      subscriptions
        .addObject()
        .put("topic", topic)
        .put("subString", "*")
        .put("expressionType", "TAG")
        .put("subVersion", 1L)
    }
    root.putArray("producerDataSet").addObject().put("groupName", "producers")
    root
  }

  def lockBody(clientId: String, group: String, topic: String, queueIds: Seq[Int]): ObjectNode = {
    val root = Json.obj().put("clientId", clientId).put("consumerGroup", group)
    val queues = root.putArray("mqSet")
    queueIds.foreach { queueId =>
      queues.addObject().put("brokerName", "broker-a").put("queueId", queueId).put("topic", topic)
    }
    root
  }

  def json(command: RemotingCommand): ObjectNode = Json.parseObject(command.body.toArray)

  /**
   * A table keyed by queues, whose bare object keys become texts: strict JSON, which can be parsed.
   */
  def queueTable(command: RemotingCommand): ObjectNode = {
    val text = """[{,](\{[^{}]*\}):""".r.replaceAllIn(
      new String(command.body.toArray),
      found => {
        val key = found.group(1).replace("\"", "\\\"")
        java.util.regex.Matcher.quoteReplacement(s"${found.matched.head}\"$key\":")
      }
    )
    Json.parseObject(text.getBytes).get("offsetTable").asInstanceOf[ObjectNode]
  }

  def records(command: RemotingCommand): Seq[DecodedRecord] = {
    val bytes = java.nio.ByteBuffer.wrap(command.body.toArray)
    Iterator
      .unfold(0) { at =>
        RecordReader.read(bytes, at) match {
          case RecordReader.Found(record) => Some((record, at + record.size))
          case _ => None
        }
      }
      .toSeq
  }

  def bodies(command: RemotingCommand): Seq[String] =
    records(command).map(record => new String(record.content.body.toArray))
}

/** A fresh broker for each test. */
abstract class BrokerSuite extends munit.FunSuite {
  def settings: Map[String, String] = Map.empty

  val broker: FunFixture[TestBroker] =
    FunFixture[TestBroker](_ => new TestBroker(settings = settings), _.close())
}
