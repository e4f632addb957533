package rmqordered.handler

import rmqordered.Proves._
import rmqordered.config.LimitSettings
import rmqordered.handler.TestClient._
import rmqordered.protocol.{RemotingCommand, RequestCode, ResponseCode}
import rmqordered.store.{LimitedDisk, StoreFixture}

/** Runs on the wire: pulls that name them, sends that are refused, unlocks that are no loss. */
class WriteFenceSuite extends BrokerSuite {
  private val InputTopic = "in"
  private val OutputTopic = "out"

  private def ready(b: TestBroker): TestClient = {
    val client = b.connect()
    client.createTopic(InputTopic, 2)
    client.createTopic(OutputTopic, 1)
    (0 until 2).foreach(queue => client.send(InputTopic, queue, s"row $queue"))
    client.heartbeat("old", "g", InputTopic)
    client.receive()
    client
  }

  private def epoch(answer: RemotingCommand, at: Int = 0): Long =
    json(answer).get("leases").get(at).get("epoch").asLong()

  private def pull(client: TestClient, queue: Int, lease: Long, run: String): RemotingCommand = {
    val named = Seq("leaseEpoch" -> lease.toString, "run" -> run)
    client.request(RequestCode.PullMessage, pullFields(InputTopic, queue, 0, named: _*))
    client.receive()
  }

  private def write(client: TestClient, run: String, body: String = "x"): RemotingCommand = {
    val fields = sendFields(OutputTopic, 0) + ("run" -> run)
    client.request(RequestCode.SendMessageV2, fields, body.getBytes)
    client.receive()
  }

  private def stored(client: TestClient): Seq[String] = {
    client.request(RequestCode.PullMessage, pullFields(OutputTopic, 0, 0))
    bodies(client.receive())
  }

  private def unlock(client: TestClient, who: String, goesOn: Boolean, queues: Int*): Unit = {
    val body = lockBody(who, "g", InputTopic, queues).put("runGoesOn", goesOn)
    assertEquals(client.callJson(RequestCode.UnlockBatchMq, body).code, 0)
  }

  broker.test("a send of a run that lost a queue is refused, and names who has it now".proves(
    "former-owner-writes-nothing"
  )) { b =>
    val client = ready(b)
    val lease = epoch(client.lock("old", "g", InputTopic, 0))
    assertEquals(pull(client, 0, lease, "run").code, ResponseCode.Success)
    assertEquals(write(client, "run", "in time").code, ResponseCode.Success)
    b.clock.advance(60001)
    client.lock("new", "g", InputTopic, 0)
    val refused = write(client, "run", "too late")
    assertEquals(refused.code, ResponseCode.WriteFenced)
    assertEquals(
      refused.remark,
      Some(
        "Run run may not write any more: its lease epoch 1 of group g on queue in@broker-a:0 is " +
          "over; the queue is held by new under epoch 2. Nothing was stored."
      )
    )
    assertEquals(write(client, "another", "of another run").code, ResponseCode.Success)
    assertEquals(client.send(OutputTopic, 0, "of none").code, ResponseCode.Success)
    assertEquals(stored(client), Seq("in time", "of another run", "of none"))
  }

  broker.test("stamped batches are fenced too, and a refused one leaves no stamp") { b =>
    val client = ready(b)
    val lease = epoch(client.lock("old", "g", InputTopic, 0))
    pull(client, 0, lease, "run")
    unlock(client, "old", goesOn = false, 0)
    val stamped = sendFields(OutputTopic, 0, "RMQO_STAMP\u0001s/0/0/0/0123456789abcdef\u0002")
    client.request(RequestCode.SendMessageV2, stamped + ("run" -> "run"), "x".getBytes)
    assertEquals(client.receive().code, ResponseCode.WriteFenced)
    client.request(RequestCode.SendMessageV2, stamped, "x".getBytes)
    val repeated = client.receive()
    assertEquals(repeated.ext("duplicate"), Some("false"))
  }

  broker.test("a queue that is given back while the run goes on is no loss, any other unlock is") {
    b =>
      val client = ready(b)
      val locked = client.lock("old", "g", InputTopic, 0, 1)
      (0 to 1).foreach(queue => pull(client, queue, epoch(locked, queue), "run"))
      unlock(client, "old", goesOn = true, 0)
      client.lock("new", "g", InputTopic, 0)
      assertEquals(write(client, "run").code, ResponseCode.Success)
      // In the name of the old run, as its successor does it: without the mark.
      unlock(client, "old", goesOn = false, 1)
      assertEquals(write(client, "run").code, ResponseCode.WriteFenced)
  }

  broker.test("a long poll that waited names its run all the same") { b =>
    val client = ready(b)
    val lease = epoch(client.lock("old", "g", InputTopic, 0))
    val named = Seq("leaseEpoch" -> lease.toString, "run" -> "run", "sysFlag" -> "6")
    client.request(RequestCode.PullMessage, pullFields(InputTopic, 0, 1, named: _*))
    val sender = b.connect()
    rmqordered.util.Eventually {
      sender.send(InputTopic, 0, "news")
      client.hasAnswer
    }
    assertEquals(bodies(client.receive()).head, "news")
    b.clock.advance(60001)
    assertEquals(write(client, "run").code, ResponseCode.WriteFenced)
  }

  broker.test("a run without a lease, and a lease without a run, are RocketMQ's pulls") { b =>
    val client = ready(b)
    val lease = epoch(client.lock("old", "g", InputTopic, 0))
    val unfenced = Seq("leaseEpoch" -> lease.toString)
    client.request(RequestCode.PullMessage, pullFields(InputTopic, 0, 0, unfenced: _*))
    assertEquals(client.receive().code, ResponseCode.Success)
    client.request(RequestCode.PullMessage, pullFields(InputTopic, 0, 0, "run" -> "run"))
    assertEquals(client.receive().code, ResponseCode.Success)
    b.clock.advance(60001)
    assertEquals(write(client, "run").code, ResponseCode.Success)
  }

  broker.test("a run has a name that can be kept and shown") { b =>
    val client = ready(b)
    Seq("a b", "r\u0000", "r" * 129, "ü").foreach { run =>
      assertEquals(write(client, run).code, ResponseCode.InvalidParameter, run)
    }
    assertEquals(write(client, "r" * 128).code, ResponseCode.Success)
  }

  test("runs are known after a restart") {
    val folder = StoreFixture.temporaryFolder()
    val first = new TestBroker(folder)
    val client = ready(first)
    pull(client, 0, epoch(client.lock("old", "g", InputTopic, 0)), "run")
    first.close()
    val second = new TestBroker(folder, clock = first.clock)
    val again = second.connect()
    assertEquals(write(again, "run").code, ResponseCode.Success)
    second.clock.advance(60001)
    again.lock("new", "g", InputTopic, 0)
    assertEquals(write(again, "run").code, ResponseCode.WriteFenced)
    second.close()
  }

  test("a run reads for the first time on a full disk too: the room for its record is claimed") {
    val disk = new LimitedDisk
    val broker = new TestBroker(files = disk)
    val client = ready(broker)
    val lease = epoch(client.lock("old", "g", InputTopic, 0))
    disk.isFull = true
    assertEquals(pull(client, 0, lease, "run").code, ResponseCode.Success)
    broker.close()
  }

  test("when no more runs can be remembered a read is refused, and a known run reads on") {
    val broker = new TestBroker(limits = LimitSettings(maxRuns = 1))
    val client = ready(broker)
    val lease = epoch(client.lock("old", "g", InputTopic, 0))
    assertEquals(pull(client, 0, lease, "run").code, ResponseCode.Success)
    assertEquals(pull(client, 0, lease, "another").code, ResponseCode.ServiceNotAvailable)
    assertEquals(pull(client, 0, lease, "run").code, ResponseCode.Success)
    broker.close()
  }
}
