package rmqordered.handler

import java.util.concurrent.RejectedExecutionException

import rmqordered.protocol.{Body, ExtFields, RemotingCommand, RequestCode, ResponseCode}

class RequestDispatcherSuite extends BrokerSuite {

  broker.test("an unknown code is answered with a sentence naming it") { b =>
    val answer = b.connect().call(4711)
    assertEquals(answer.code, ResponseCode.RequestCodeNotSupported)
    assertEquals(answer.remark, Some("Request code 4711 is not supported by this broker."))
  }

  broker.test("an answer carries the request's id, the response flag and this broker's version") {
    b =>
      val client = b.connect()
      val opaque = client.request(RequestCode.GetBrokerClusterInfo)
      val answer = client.receive()
      assertEquals((answer.opaque, answer.flag), (opaque, 1))
      assert(answer.version >= 479)
      assertEquals(answer.language, "OTHER")
  }

  broker.test("a one-way request is never answered, whatever becomes of it") { b =>
    val client = b.connect()
    client.request(4711, flag = RemotingCommand.OneWayFlag)
    client.request(RequestCode.GetBrokerClusterInfo, flag = RemotingCommand.OneWayFlag)
    client.request(RequestCode.PullMessage, flag = RemotingCommand.OneWayFlag)
    assert(!client.hasAnswer)
  }

  broker.test("a response is not taken for a request") { b =>
    val client = b.connect()
    client.request(RequestCode.GetBrokerClusterInfo, flag = RemotingCommand.ResponseFlag)
    assert(!client.hasAnswer)
  }

  broker.test("a missing or unreadable field is answered with its name") { b =>
    val missing = b.connect().call(RequestCode.GetMaxOffset, "topic" -> "t")
    assertEquals(missing.code, ResponseCode.InvalidParameter)
    assertEquals(missing.remark, Some("The header field queueId is missing."))
    val unreadable = b.connect().call(RequestCode.GetMaxOffset, "topic" -> "t", "queueId" -> "x")
    assertEquals(unreadable.remark, Some("The header field queueId is not a number: 'x'."))
  }

  broker.test("a body that is not JSON is answered with the reason") { b =>
    val client = b.connect()
    client.request(RequestCode.LockBatchMq, body = "nonsense".getBytes)
    val answer = client.receive()
    assertEquals(answer.code, ResponseCode.InvalidParameter)
    assert(answer.remark.exists(_.startsWith("The request's body cannot be read")))
  }

  test("a handler that throws costs its caller an answer with code 1 and nothing else") {
    val routes = Map(
      1 -> Route(ServedBy.NetworkThread, (_: Call) => throw new IllegalStateException("broken")),
      2 -> Route(ServedBy.NetworkThread, (_: Call) => throw new NoClassDefFoundError("gone")),
      4 -> Route(ServedBy.NetworkThread, (_: Call) => throw new StackOverflowError("too deep")),
      3 -> Route(
        ServedBy.NetworkThread,
        (call: Call) => { call.answer(Response.ok); call.answer(Response.ok) }
      )
    )
    val atOnce: ConnectionExecutor = (_, task) => task.run()
    val dispatcher = new RequestDispatcher(routes, atOnce, atOnce)
    val connection = new RecordingConnection
    (1 to 4).foreach(code => dispatcher.dispatch(request(code), connection))
    assertEquals(connection.sent.map(_.code), Vector(1, 1, 0, 1))
    assertEquals(connection.sent.head.remark, Some("java.lang.IllegalStateException: broken"))
  }

  test("a full worker queue is answered busy") {
    val routes = Seq(ServedBy.Worker, ServedBy.LeaseWorker).zipWithIndex.map { case (by, code) =>
      code -> Route(by, (call: Call) => call.answer(Response.ok))
    }
    val full: ConnectionExecutor = (_, _) => throw new RejectedExecutionException()
    val dispatcher = new RequestDispatcher(routes.toMap, full, full)
    val connection = new RecordingConnection
    Seq(0, 1).foreach(code => dispatcher.dispatch(request(code), connection))
    assertEquals(connection.sent.map(_.code), Vector.fill(2)(ResponseCode.SystemBusy))
  }

  broker.test("requests of RocketMQ that are not served say so") { b =>
    val client = b.connect()
    val transaction = client.call(RequestCode.EndTransaction)
    assertEquals(transaction.code, ResponseCode.RequestCodeNotSupported)
    assert(transaction.remark.exists(_.contains("transactions are not served")))
    Seq(RequestCode.SendReplyMessage, RequestCode.SendReplyMessageV2).foreach { code =>
      val answer = client.call(code)
      assertEquals(answer.code, ResponseCode.RequestCodeNotSupported)
      assert(answer.remark.exists(_.contains("request-reply")))
    }
  }

  private def request(code: Int) =
    RemotingCommand(code, "JAVA", 479, code, 0, None, Some(ExtFields.empty), Body.empty)

  private final class RecordingConnection extends Connection {
    var sent = Vector.empty[RemotingCommand]
    override val remoteSocket = new java.net.InetSocketAddress("1.2.3.4", 5)
    override def send(command: RemotingCommand): Unit = sent = sent :+ command
    override def whenWritable(task: () => Unit): Unit = task()
    override def close(): Unit = ()
  }
}
