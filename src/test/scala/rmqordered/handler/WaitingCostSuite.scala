package rmqordered.handler

import java.net.InetSocketAddress

import rmqordered.handler.TestClient._
import rmqordered.protocol.{Body, ExtFields, RemotingCommand, RequestCode, ResponseCode}
import rmqordered.util.Eventually

/** What is kept of a request that waits. */
class WaitingCostSuite extends BrokerSuite {

  private final class Counting extends Connection {
    @volatile var kept = Vector.empty[RemotingCommand]
    @volatile var finishedWith = Vector.empty[RemotingCommand]
    @volatile var answers = Vector.empty[RemotingCommand]
    override val remoteSocket = new InetSocketAddress("10.0.0.2", 5)
    override def send(command: RemotingCommand): Unit = answers :+= command
    override def whenWritable(task: () => Unit): Unit = task()
    override def finished(command: RemotingCommand): Unit = finishedWith :+= command
    override def shrunk(before: RemotingCommand, after: RemotingCommand): Unit = kept :+= after
    override def close(): Unit = ()
  }

  private def waiting(code: Int, fields: Map[String, String]): RemotingCommand = {
    val ext = ExtFields((fields + ("junk" -> "x" * 10000)).toSeq: _*)
    RemotingCommand(
      code,
      "JAVA",
      479,
      1,
      0,
      Some("remark"),
      Some(ext),
      Body(new Array[Byte](100000))
    )
  }

  private def pop = Map(
    "consumerGroup" -> "g",
    "topic" -> "t",
    "queueId" -> "0",
    "maxMsgNums" -> "1",
    "invisibleTime" -> "1000",
    "pollTime" -> "10000",
    "initMode" -> "0"
  )

  Seq(
    "pull" -> waiting(RequestCode.PullMessage, pullFields("t", 0, 0, "sysFlag" -> "6")),
    "pop" -> waiting(RequestCode.PopMessage, pop)
  ).foreach { case (name, request) =>
    broker.test(s"a $name that waits keeps neither its body nor fields it does not need") { b =>
      val client = b.connect()
      client.createTopic("t", 1)
      val connection = new Counting
      b.core.received(request, connection)
      assertEquals(connection.kept.map(_.body.length), Vector(0))
      assertEquals(connection.kept.head.ext("junk"), None)
      client.send("t", 0, "x")
      Eventually(connection.answers.nonEmpty)
      assertEquals(connection.answers.map(_.code), Vector(0))
      assert(connection.finishedWith.head eq connection.kept.last, "it costs what was kept")
    }

    broker.test(s"a $name whose client left costs nothing any more") { b =>
      b.connect().createTopic("t", 1)
      val connection = new Counting
      b.core.received(request, connection)
      b.core.disconnected(connection)
      assertEquals(connection.finishedWith.length, 1)
      assertEquals(connection.answers.length, 0)
    }
  }

  broker.test("a JSON body that nobody needs so large is not taken apart") { b =>
    val client = b.connect()
    val body = ("[" + "{}," * 1000000 + "{}]").getBytes
    client.request(RequestCode.LockBatchMq, body = body)
    val answer = client.receive()
    assertEquals(answer.code, ResponseCode.InvalidParameter)
    assert(answer.remark.exists(_.contains("at most 2097152")), answer.remark)
  }
}
