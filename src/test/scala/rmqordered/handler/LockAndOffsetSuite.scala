package rmqordered.handler

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}

/** Locks (41, 42, 19001) and group offsets (14, 15), with and without a lease. */
class LockAndOffsetSuite extends BrokerSuite {

  private def commit(client: TestClient, offset: Long, extra: (String, String)*): RemotingCommand =
    client.call(
      RequestCode.UpdateConsumerOffset,
      Seq(
        "consumerGroup" -> "g",
        "topic" -> "t",
        "queueId" -> "0",
        "commitOffset" -> s"$offset"
      ) ++ extra: _*
    )

  private def query(client: TestClient, extra: (String, String)*): RemotingCommand =
    client.call(
      RequestCode.QueryConsumerOffset,
      Seq("consumerGroup" -> "g", "topic" -> "t", "queueId" -> "0") ++ extra: _*
    )

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic("t", 2)
    client.heartbeat("c1", "g", "t")
    client.receive()
    client
  }

  broker.test("a lock answer has RocketMQ's set, and a lease for every queue asked for") { b =>
    val client = ready(b)
    client.lock("c1", "g", "t", 0)
    val answer = json(client.lock("c2", "g", "t", 0, 1))
    assertEquals(
      answer.get("lockOKMQSet").toString,
      """[{"brokerName":"broker-a","queueId":1,"topic":"t"}]"""
    )
    assertEquals(
      answer.get("rmqOrderedFeatures").toString,
      """["leaseEpoch","widePull","idempotentSend","stampedRequest","fencedWrite"]"""
    )
    val leases = answer.get("leases")
    assertEquals(leases.size(), 2)
    val refused = leases.get(0)
    assertEquals(
      (
        refused.get("granted").asBoolean(),
        refused.get("clientId").asText(),
        refused.get("epoch").asLong()
      ),
      (false, "c1", 1L)
    )
    assertEquals(leases.get(1).get("expiresInMillis").asLong(), 60000L)
  }

  broker.test("an unlock frees the queue for the next one, under the next epoch") { b =>
    val client = ready(b)
    client.lock("c1", "g", "t", 0)
    assertEquals(client.unlock("c1", "g", "t", 0).code, 0)
    assertEquals(
      json(client.lock("c2", "g", "t", 0)).get("leases").get(0).get("epoch").asLong(),
      2L
    )
  }

  broker.test("a lock needs a client id and legal names, but no heartbeat and no group") { b =>
    val client = b.connect()
    assertEquals(client.lock("c1", "new-group", "t", 0).code, 0)
    assertEquals(client.lock("", "g", "t", 0).code, ResponseCode.InvalidParameter)
    assertEquals(client.lock("c1", "a/b", "t", 0).code, ResponseCode.InvalidParameter)
    assertEquals(client.lock("c1", "g", "../t", 0).code, ResponseCode.InvalidParameter)
  }

  broker.test("the lease table and its history can be read, filtered by group and topic") { b =>
    val client = ready(b)
    client.lock("c1", "g", "t", 0)
    client.lock("c2", "h", "t", 1)
    client.unlock("c2", "h", "t", 1)
    val all = json(client.call(RequestCode.GetQueueLeases))
    assertEquals((all.get("leases").size(), all.get("history").size()), (1, 3))
    val lease = all.get("leases").get(0)
    assertEquals(
      (lease.get("group").asText(), lease.get("clientId").asText(), lease.get("live").asBoolean()),
      ("g", "c1", true)
    )
    val ofH = json(client.call(RequestCode.GetQueueLeases, "consumerGroup" -> "h"))
    assertEquals((ofH.get("leases").size(), ofH.get("history").size()), (0, 2))
    assertEquals(ofH.get("history").get(1).get("reason").asText(), "unlocked")
    assertEquals(
      json(client.call(RequestCode.GetQueueLeases, "topic" -> "u")).get("history").size(),
      0
    )
    b.clock.advance(60001)
    assert(
      !json(client.call(RequestCode.GetQueueLeases)).get("leases").get(0).get("live").asBoolean()
    )
  }

  broker.test("a group that never committed has no offset, or 0 while the queue is young") { b =>
    val client = ready(b)
    assertEquals(query(client).code, ResponseCode.QueryNotFound)
    client.send("t", 0, "x")
    assertEquals(query(client).ext("offset"), Some("0"))
    assertEquals(query(client, "setZeroIfNotFound" -> "false").code, ResponseCode.QueryNotFound)
  }

  broker.test("a plain commit is taken as it is, backwards too") { b =>
    val client = ready(b)
    assertEquals(commit(client, 5).code, 0)
    assertEquals(commit(client, 3).code, 0)
    assertEquals(query(client).ext("offset"), Some("3"))
  }

  broker.test("a commit of an unknown group or topic, or below zero, is refused") { b =>
    val client = ready(b)
    assertEquals(
      commit(client, 1, "consumerGroup" -> "nobody").code,
      ResponseCode.SubscriptionGroupNotExist
    )
    assertEquals(commit(client, 1, "topic" -> "nothing").code, ResponseCode.TopicNotExist)
    assertEquals(commit(client, -1).code, ResponseCode.InvalidParameter)
  }

  broker.test("a commit under a lease needs the live epoch and never goes back".proves(
    "stale-lease-refused",
    "lease-commit-never-back"
  )) { b =>
    val client = ready(b)
    client.lock("c1", "g", "t", 0)
    assertEquals(commit(client, 5, "leaseEpoch" -> "1").code, 0)
    assertEquals(commit(client, 5, "leaseEpoch" -> "1").code, 0)
    val back = commit(client, 4, "leaseEpoch" -> "1")
    assertEquals(back.code, ResponseCode.OffsetWentBack)
    assert(back.remark.exists(_.contains("has committed 5")), s"${back.remark}")
    assertEquals(commit(client, 6, "leaseEpoch" -> "2").code, ResponseCode.StaleLeaseEpoch)
    client.unlock("c1", "g", "t", 0)
    assertEquals(commit(client, 6, "leaseEpoch" -> "1").code, ResponseCode.StaleLeaseEpoch)
    assertEquals(query(client).ext("offset"), Some("5"))
  }

  broker.test("locks end with their topic or group, and a topic made anew goes on with epochs") {
    b =>
      val client = ready(b)
      client.lock("c1", "g", "t", 0)
      client.call(RequestCode.DeleteTopicInBroker, "topic" -> "t")
      client.createTopic("t", 2)
      assertEquals(commit(client, 0, "leaseEpoch" -> "1").code, ResponseCode.StaleLeaseEpoch)
      assertEquals(epochOf(client.lock("c2", "g", "t", 0)), 2L)
      client.call(RequestCode.DeleteSubscriptionGroup, "groupName" -> "g")
      assertEquals(epochOf(client.lock("c1", "g", "t", 0)), 3L)
  }

  broker.test("a queue that does not exist can be locked, as in RocketMQ") { b =>
    val answer = json(ready(b).lock("c1", "g", "no such topic".replace(' ', '_'), 0, 99))
    assertEquals(answer.get("lockOKMQSet").size(), 2)
  }

  test("a lost file of leases does not bring old epochs back") {
    val folder = rmqordered.store.StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val epoch = epochOf(ready(first).lock("c1", "g", "t", 0))
    first.close()
    Seq("queueLeases.1.base", "queueLeases.1.journal").foreach(name =>
      java.nio.file.Files.deleteIfExists(folder.resolve("config").resolve(name))
    )
    val second = new TestBroker(folder)
    assert(epochOf(second.connect().lock("c2", "g", "t", 0)) > epoch)
    second.close()
  }

  private def epochOf(answer: RemotingCommand): Long =
    json(answer).get("leases").get(0).get("epoch").asLong()

  test("epochs, owners and fenced commits survive a restart") {
    val folder = rmqordered.store.StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val client = ready(first)
    client.lock("c1", "g", "t", 0)
    (0 until 8).foreach(i => client.send("t", 0, s"m$i"))
    commit(client, 7, "leaseEpoch" -> "1")
    first.close()
    val second = new TestBroker(folder, clock = first.clock)
    val again = second.connect()
    assertEquals(query(again).ext("offset"), Some("7"))
    assertEquals(commit(again, 8, "leaseEpoch" -> "1").code, 0)
    assertEquals(json(again.lock("c2", "g", "t", 0)).get("lockOKMQSet").size(), 0)
    second.clock.advance(60001)
    assertEquals(json(again.lock("c2", "g", "t", 0)).get("leases").get(0).get("epoch").asLong(), 2L)
    second.close()
  }

  broker.test("offsets of queues and times are answered for unknown queues too") { b =>
    val client = ready(b)
    client.send("t", 0, "x")
    def offset(code: Int, fields: (String, String)*) = client.call(code, fields: _*).ext("offset")
    val queue = Seq("topic" -> "t", "queueId" -> "0")
    assertEquals(offset(RequestCode.GetMaxOffset, queue: _*), Some("1"))
    assertEquals(offset(RequestCode.GetMinOffset, queue: _*), Some("0"))
    assertEquals(offset(RequestCode.GetMaxOffset, "topic" -> "none", "queueId" -> "5"), Some("0"))
    val after = b.clock.wallMillis() + 1
    val late = queue :+ ("timestamp" -> after.toString)
    assertEquals(offset(RequestCode.SearchOffsetByTimestamp, late: _*), Some("1"))
    assertEquals(
      offset(RequestCode.SearchOffsetByTimestamp, late :+ ("boundaryType" -> "UPPER"): _*),
      Some("0")
    )
    assertEquals(
      client.call(RequestCode.GetEarliestMsgStoreTime, queue: _*).ext("timestamp"),
      Some(b.clock.wallMillis().toString)
    )
    assertEquals(
      client.call(
        RequestCode.GetEarliestMsgStoreTime,
        "topic" -> "t",
        "queueId" -> "1"
      ).ext("timestamp"),
      Some("-1")
    )
  }

  test("a lease is renewed while heartbeats and topic changes wait for the disk".proves(
    "renewals-on-their-own"
  )) {
    val stuck = new java.util.concurrent.ConcurrentLinkedQueue[Runnable]()
    val broker = new TestBroker(worker = task => { val _ = stuck.add(task) })
    val (client, neighbour) = (broker.connect(), broker.connect())
    assertEquals(epochOf(client.lock("c1", "g", "t", 0)), 1L)
    neighbour.request(RequestCode.HeartBeat, body = "{}".getBytes)
    neighbour.request(RequestCode.DeleteTopicInBroker, Map("topic" -> "t"))
    broker.clock.advance(59000)
    assertEquals(epochOf(client.lock("c1", "g", "t", 0)), 1L)
    broker.clock.advance(59000)
    assertEquals(client.unlock("c1", "g", "t", 0).code, 0)
    assertEquals((stuck.size(), neighbour.hasAnswer), (2, false))
    broker.close()
  }

  broker.test(
    "a lock or unlock that names too many queues is refused, and nothing is locked".proves(
      "names-per-request"
    )
  ) { b =>
    val client = ready(b)
    val most = 0 until 20000
    val codes = Seq(RequestCode.LockBatchMq, RequestCode.UnlockBatchMq)
    codes.foreach { code =>
      val answer = client.callJson(code, lockBody("c1", "g", "t", most :+ 20000))
      assertEquals(answer.code, ResponseCode.InvalidParameter)
      val expected = "The request names 20001 queues, at most 20000 are served; " +
        "send several requests."
      assertEquals(answer.remark, Some(expected))
    }
    assertEquals(json(client.call(RequestCode.GetQueueLeases)).get("leases").size(), 0)
    val unlock = client.callJson(RequestCode.UnlockBatchMq, lockBody("c1", "g", "t", most))
    assertEquals(unlock.code, 0)
  }
}
