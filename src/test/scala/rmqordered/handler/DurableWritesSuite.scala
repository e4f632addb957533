package rmqordered.handler

import rmqordered.Proves._
import rmqordered.handler.TestClient._
import rmqordered.protocol.RequestCode
import rmqordered.store.LimitedDisk
import rmqordered.util.Json

/** How often a request makes the broker write and force a small file. */
class DurableWritesSuite extends munit.FunSuite {

  private def using(body: (TestBroker, LimitedDisk) => Unit): Unit = {
    val disk = new LimitedDisk
    val broker = new TestBroker(files = disk)
    try body(broker, disk)
    finally broker.close()
  }

  /** The small files that are written meanwhile. */
  private def writes(disk: LimitedDisk)(action: => Unit): Seq[String] = {
    val before = disk.writes.length
    action
    disk.writes.drop(before).map(_._1)
  }

  test(
    "a heartbeat that names 3,000 new groups writes once, and the groups follow in one write".proves(
      "one-write-per-request"
    )
  ) {
    using { (broker, disk) =>
      val client = broker.connect()
      val many = (0 until 3000).map(i => s"g$i")
      val heartbeat = Json.obj().put("clientID", "c1")
      val consumers = heartbeat.putArray("consumerDataSet")
      many.foreach(group => consumers.addObject().put("groupName", group))
      client.request(RequestCode.HeartBeat, body = Json.bytes(heartbeat))
      assertEquals(disk.writes.map(_._1).count(_ == "topics.json"), 1)
      assertEquals(disk.writes.map(_._1).count(_ == "subscriptionGroup.json"), 0)
      assertEquals(writes(disk)(broker.tick()).count(_ == "subscriptionGroup.json"), 1)
      assertEquals(
        writes(disk) {
          client.request(RequestCode.HeartBeat, body = Json.bytes(heartbeat))
          broker.tick()
        }.filter(Set("topics.json", "subscriptionGroup.json")),
        Nil
      )
      Iterator.continually(client.receive()).find(_.isResponse).foreach(a =>
        assertEquals(a.code, 0)
      )
      Seq("g0", "g2999").foreach { group =>
        val found = broker.connect().call(RequestCode.GetSubscriptionGroupConfig, "group" -> group)
        assertEquals(found.code, 0)
        val route = broker.connect().call(
          RequestCode.GetRouteInfoByTopic,
          "topic" -> s"%RETRY%$group"
        )
        assertEquals(route.code, 0)
      }
    }
  }

  test("groups that are set together are one write") {
    using { (broker, disk) =>
      val body = Json.obj()
      val list = body.putArray("groupConfigList")
      (0 until 500).foreach(i => list.addObject().put("groupName", s"g$i"))
      val code = RequestCode.UpdateAndCreateSubscriptionGroupList
      assertEquals(
        writes(disk)(assertEquals(broker.connect().callJson(code, body).code, 0)),
        Seq("subscriptionGroup.json")
      )
    }
  }

  test("a group that is created by a pull or a pop needs no write before the answer") {
    using { (broker, disk) =>
      val client = broker.connect()
      client.createTopic("t", 1)
      client.send("t", 0, "m")
      val during = writes(disk) {
        client.request(RequestCode.PullMessage, pullFields("t", 0, 0, "consumerGroup" -> "puller"))
        assertEquals(bodies(client.receive()), Seq("m"))
        assertEquals(new Popper(client, "t", "popper").pop().length, 1)
      }
      assertEquals(during, Nil)
    }
  }
}
