package rmqordered.handler

import java.nio.file.Files

import rmqordered.Proves._
import rmqordered.auth.{Secret, Signature}
import rmqordered.handler.TestClient._
import rmqordered.protocol.{Body, ExtFields, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.store.StoreFixture
import rmqordered.util.Json

class AccessGuardSuite extends BrokerSuite {
  private val acl = """
    |user.root.secret=root-secret
    |user.root.admin=true
    |user.app.secret=app-secret
    |user.app.topic.in=SUB
    |user.app.topic.out=PUB
    |user.app.group.g=SUB
    |user.app.kv.sinks=PUB|SUB
    |user.reader.secret=reader-secret
    |user.reader.topic.in=SUB
    |user.reader.group.g=SUB
    |user.reader.group.mine=PUB
    |""".stripMargin

  override def settings: Map[String, String] = {
    val file = StoreFixture.temporaryFolder().resolve("acl.conf")
    Map("aclFile" -> Files.writeString(file, acl).toString)
  }

  /** Sends requests as a user and gives their answers. */
  private final class As(client: TestClient, user: String, secret: String = "") {
    def apply(
        code: Int,
        fields: Map[String, String],
        body: Array[Byte] = Array.emptyByteArray
    ): RemotingCommand = {
      client.request(code, signed(user, secret, fields, body), body)
      client.receive()
    }
  }

  private def as(client: TestClient, user: String, secret: String = ""): As =
    new As(client, user, secret)

  private def signed(
      user: String,
      secret: String,
      fields: Map[String, String],
      body: Array[Byte]
  ) = {
    val all = fields + ("AccessKey" -> user)
    val plain =
      RemotingCommand(0, "JAVA", 0, 0, 0, None, Some(ExtFields(all.toSeq: _*)), Body(body))
    val used = if (secret.isEmpty) s"$user-secret" else secret
    all + ("Signature" -> Signature.of(plain, new Secret(used)))
  }

  private val topic = Map("readQueueNums" -> "1", "writeQueueNums" -> "1", "perm" -> "6")
  private val group = Map("consumerGroup" -> "g", "queueId" -> "0")

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    Seq("in", "out").foreach { name =>
      assertEquals(
        as(client, "root")(RequestCode.UpdateAndCreateTopic, topic + ("topic" -> name)).code,
        0
      )
    }
    client
  }

  broker.test("nobody without a good signature is served, whatever is asked") { b =>
    val client = ready(b)
    Seq(
      RequestCode.GetBrokerClusterInfo,
      RequestCode.HeartBeat,
      RequestCode.SendMessageV2,
      31999
    ).foreach { code =>
      assertEquals(client.call(code).code, ResponseCode.NoPermission, s"$code")
      val wrong = as(client, "app", "wrong")(code, Map.empty)
      assertEquals(wrong.code, ResponseCode.NoPermission, s"$code")
      assert(!wrong.remark.exists(_.contains("secret")), s"${wrong.remark}")
    }
  }

  broker.test("a user publishes and consumes where it may, and is told where it may not") { b =>
    val client = ready(b)
    val app = as(client, "app")
    assertEquals(app(RequestCode.SendMessageV2, sendFields("out", 0), "x".getBytes).code, 0)
    val refused = app(RequestCode.SendMessageV2, sendFields("in", 0), "x".getBytes)
    assertEquals(refused.code, ResponseCode.NoPermission)
    assertEquals(refused.remark, Some("User 'app' has no permission: PUB on topic.in is needed."))
    assertEquals(
      app(RequestCode.PullMessage, pullFields("in", 0, 0)).code,
      ResponseCode.PullNotFound
    )
    assertEquals(
      app(RequestCode.PullMessage, pullFields("out", 0, 0)).code,
      ResponseCode.NoPermission
    )
    assertEquals(
      app(RequestCode.PullMessage, pullFields("in", 0, 0, "consumerGroup" -> "other")).code,
      ResponseCode.NoPermission
    )
    assertEquals(app(RequestCode.SendMessageV2, sendFields("%RETRY%g", 0), "x".getBytes).code, 0)
    assertEquals(
      app(RequestCode.SendMessageV2, sendFields("%RETRY%h", 0), "x".getBytes).code,
      ResponseCode.NoPermission
    )
  }

  broker.test("pops and acknowledgements need the topic and the group") { b =>
    val app = as(ready(b), "app")
    def pop(group: String, topic: String): Int =
      app(RequestCode.PopMessage, new Popper(b.connect(), topic, group).fields()).code
    assertEquals(pop("g", "in"), ResponseCode.PollingTimeout)
    assertEquals(pop("g", "out"), ResponseCode.NoPermission)
    assertEquals(pop("others", "in"), ResponseCode.NoPermission)
    assertEquals(pop("g", "%RETRY%g_others"), ResponseCode.NoPermission)
    def ack(group: String, topic: String): Int = {
      val fields = Map("consumerGroup" -> group, "topic" -> topic, "queueId" -> "0")
      val handle = Map("extraInfo" -> "0 1 1 0 0 broker-a 0 0", "offset" -> "0")
      app(RequestCode.AckMessage, fields ++ handle).code
    }
    assertEquals(ack("g", "in"), 0)
    assertEquals(ack("g", "%RETRY%g_in"), ResponseCode.TopicNotExist)
    assertEquals(ack("others", "in"), ResponseCode.NoPermission)
    val others = Json.obj()
    others.putArray("acks").addObject().put("c", "others").put("t", "in")
    assertEquals(
      app(RequestCode.BatchAckMessage, Map.empty, Json.bytes(others)).code,
      ResponseCode.NoPermission
    )
    assertEquals(
      app(RequestCode.SetMessageRequestMode, Map.empty, Json.bytes(Json.obj())).code,
      ResponseCode.NoPermission
    )
  }

  broker.test("bodies are looked into: heartbeats and locks of others are refused") { b =>
    val client = ready(b)
    val app = as(client, "app")
    def heartbeatOf(g: String, t: String) =
      app(RequestCode.HeartBeat, Map.empty, Json.bytes(TestClient.heartbeat("c", g, Seq(t))))
    assertEquals(heartbeatOf("h", "in").code, ResponseCode.NoPermission)
    assertEquals(heartbeatOf("g", "out").code, ResponseCode.NoPermission)
    assertEquals(heartbeatOf("g", "in").code, RequestCode.NotifyConsumerIdsChanged)
    assertEquals(client.receive().code, 0)
    def lockOf(g: String, t: String) =
      app(RequestCode.LockBatchMq, Map.empty, Json.bytes(lockBody("c", g, t, Seq(0)))).code
    assertEquals(
      (lockOf("g", "in"), lockOf("g", "out"), lockOf("h", "in")),
      (0, ResponseCode.NoPermission, ResponseCode.NoPermission)
    )
    assertEquals(
      app(RequestCode.HeartBeat, Map.empty, "{".getBytes).code,
      ResponseCode.InvalidParameter
    )
  }

  broker.test("a message is given back by those who may read its topic, and by nobody else".proves(
    "acl-give-back"
  )) { b =>
    val client = ready(b)
    val root = as(client, "root")
    def place(topic: String): String = {
      val sent = root(RequestCode.SendMessageV2, sendFields(topic, 0), "secret".getBytes)
      java.lang.Long.parseUnsignedLong(sent.ext("msgId").get.takeRight(16), 16).toString
    }
    def giveBack(offset: String): RemotingCommand =
      as(client, "app")(
        RequestCode.ConsumerSendMsgBack,
        Map("offset" -> offset, "group" -> "g", "delayLevel" -> "-1")
      )
    val refused = giveBack(place("out"))
    assertEquals(refused.code, ResponseCode.NoPermission)
    assertEquals(refused.remark, Some("User 'app' has no permission: SUB on topic.out is needed."))
    assertEquals(
      as(client, "app")(RequestCode.PullMessage, pullFields("%DLQ%g", 0, 0)).code,
      ResponseCode.TopicNotExist
    )
    assertEquals(giveBack(place("in")).code, 0)
    assertEquals(giveBack("123456789").code, ResponseCode.SystemError)
  }

  broker.test("administration is for administrators, and so is what nobody has thought of") { b =>
    val client = ready(b)
    val app = as(client, "app")
    assertEquals(
      app(RequestCode.UpdateAndCreateTopic, topic + ("topic" -> "new")).code,
      ResponseCode.NoPermission
    )
    assertEquals(
      app(RequestCode.DeleteTopicInBroker, Map("topic" -> "out")).code,
      ResponseCode.NoPermission
    )
    assertEquals(app(RequestCode.GetQueueLeases, Map.empty).code, ResponseCode.NoPermission)
    assertEquals(app(RequestCode.GetQueueLeases, group).code, 0)
    assertEquals(app(31999, Map.empty).code, ResponseCode.NoPermission)
    assertEquals(as(client, "root")(31999, Map.empty).code, ResponseCode.RequestCodeNotSupported)
    val kv = Map("namespace" -> "sinks", "key" -> "k", "value" -> "v")
    assertEquals(app(RequestCode.PutKvConfig, kv).code, 0)
    assertEquals(
      app(RequestCode.PutKvConfig, kv + ("namespace" -> "other")).code,
      ResponseCode.NoPermission
    )
  }

  broker.test("a one-way request that is denied does nothing and is not answered") { b =>
    val client = ready(b)
    as(
      client,
      "app"
    )(RequestCode.HeartBeat, Map.empty, Json.bytes(TestClient.heartbeat("c", "g", Seq("in"))))
    client.receive()
    val commit = group ++ Map("topic" -> "in", "commitOffset" -> "5")
    client.request(RequestCode.UpdateConsumerOffset, commit, flag = RemotingCommand.OneWayFlag)
    assert(!client.hasAnswer)
    val query = group + ("topic" -> "in")
    assertEquals(
      as(client, "app")(RequestCode.QueryConsumerOffset, query).code,
      ResponseCode.QueryNotFound
    )
    client.request(
      RequestCode.UpdateConsumerOffset,
      signed("app", "", commit, Array.emptyByteArray),
      flag = RemotingCommand.OneWayFlag
    )
    assertEquals(as(client, "app")(RequestCode.QueryConsumerOffset, query).ext("offset"), Some("5"))
  }

  private def producers(groups: String*): Array[Byte] = {
    val root = Json.obj().put("clientID", "c")
    val array = root.putArray("producerDataSet")
    groups.foreach(group => array.addObject().put("groupName", group))
    Json.bytes(root)
  }

  broker.test("a heartbeat's producers need a right like its consumers".proves("acl-producers")) {
    b =>
      val client = ready(b)
      def heartbeat(user: String, groups: String*): RemotingCommand =
        as(client, user)(RequestCode.HeartBeat, Map.empty, producers(groups: _*))
      val refused = heartbeat("reader", "others")
      assertEquals(refused.code, ResponseCode.NoPermission)
      assertEquals(
        refused.remark,
        Some(
          "User 'reader' has no permission: PUB or SUB on group.others or PUB on some topic is needed."
        )
      )
      assertEquals(heartbeat("reader", "mine", "g", "CLIENT_INNER_PRODUCER").code, 0)
      assertEquals(heartbeat("app", "whatever").code, 0)
      assertEquals(heartbeat("root", "whatever").code, 0)
      val known = as(client, "root")(
        RequestCode.GetProducerConnectionList,
        Map("producerGroup" -> "others")
      )
      assertEquals(known.code, ResponseCode.SystemError)
  }

  broker.test(
    "a consumer that is asked on behalf of an administrator sees nothing that proves who asked"
      .proves("acl-signature-stays")
  ) { b =>
    val (client, admin) = (ready(b), b.connect())
    as(client, "app")(
      RequestCode.HeartBeat,
      Map.empty,
      Json.bytes(TestClient.heartbeat("in", "g", Seq("in")))
    )
    client.receive()
    val about = Map("consumerGroup" -> "g", "clientId" -> "in", "SecurityToken" -> "token")
    val sent = as(client, "root")(RequestCode.SendMessageV2, sendFields("in", 0), "x".getBytes)
    val questions = Seq(
      RequestCode.GetConsumerRunningInfo -> about,
      RequestCode.ConsumeMessageDirectly -> (about + ("msgId" -> sent.ext("msgId").get))
    )
    questions.foreach { case (code, fields) =>
      admin.request(code, signed("root", "", fields, Array.emptyByteArray))
      val asked = client.receive()
      assertEquals(asked.code, code)
      val names = asked.extFields.get.toSeq.map(_._1).toSet
      assertEquals(
        names.intersect(Set("AccessKey", "Signature", "SecurityToken")),
        Set.empty[String]
      )
      assertEquals(asked.ext("clientId"), Some("in"))
      // What the consumer says is carried back without any proof as well.
      val said = Some(ExtFields("Signature" -> "x", "AccessKey" -> "root", "told" -> "yes"))
      b.core.received(RemotingCommand.response(asked.opaque, 0, extFields = said), client)
      assertEquals(admin.receive().extFields, Some(ExtFields("told" -> "yes")))
    }
  }

  broker.test("topics that a user may not see are not there for it".proves("acl-topics-hidden")) {
    b =>
      val client = ready(b)
      val (app, root) = (as(client, "app"), as(client, "root"))
      app(
        RequestCode.HeartBeat,
        Map.empty,
        Json.bytes(TestClient.heartbeat("c", "g", Seq("in")))
      )
      client.receive()
      val hidden = "hidden"
      root(RequestCode.UpdateAndCreateTopic, topic + ("topic" -> hidden))
      // Another member of the group may see more.
      val other = b.connect()
      other.request(
        RequestCode.HeartBeat,
        signed("root", "", Map.empty, secondHeartbeat),
        secondHeartbeat
      )
      other.receive()
      other.receive()
      client.receive()
      root(RequestCode.LockBatchMq, Map.empty, Json.bytes(lockBody("c2", "g", hidden, Seq(0))))
      val commit = group ++ Map("topic" -> hidden, "commitOffset" -> "0")
      assertEquals(root(RequestCode.UpdateConsumerOffset, commit).code, 0)
      root(RequestCode.SendMessageV2, sendFields(hidden, 0), "x".getBytes)
      root(RequestCode.PopMessage, new Popper(b.connect(), hidden, "g").fields())
      val cluster = Map("cluster" -> "DefaultCluster")
      val questions = Seq(
        RequestCode.GetAllTopicListFromNameServer -> Map.empty[String, String],
        RequestCode.GetTopicsByCluster -> cluster,
        RequestCode.GetConsumeStats -> group,
        RequestCode.GetConsumeStats -> (group + ("topicList" -> s"in;$hidden")),
        RequestCode.GetConsumeStats -> (group + ("topic" -> hidden)),
        RequestCode.GetConsumerConnectionList -> group,
        RequestCode.GetQueueLeases -> group,
        RequestCode.GetPopState -> group
      )
      questions.foreach { case (code, fields) =>
        val (shown, all) = (app(code, fields), root(code, fields))
        assertEquals((shown.code, all.code), (0, 0), s"$code")
        assert(text(all).contains(hidden), s"$code $fields ${text(all)}")
        assert(!text(shown).contains(hidden), s"$code $fields ${text(shown)}")
      }
      val names = json(app(RequestCode.GetAllTopicListFromNameServer, Map.empty)).get("topicList")
      assertEquals(names.toString, """["%RETRY%g","in","out"]""")
  }

  private def secondHeartbeat: Array[Byte] =
    Json.bytes(TestClient.heartbeat("c2", "g", Seq("in", "hidden")))

  private def text(command: RemotingCommand): String = new String(command.body.toArray)
}
