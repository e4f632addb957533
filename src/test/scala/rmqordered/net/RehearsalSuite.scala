package rmqordered.net

import scala.collection.mutable

import rmqordered.config.BrokerConfig
import rmqordered.handler.Connection
import rmqordered.protocol.{RemotingCommand, RequestCode}

class RehearsalSuite extends munit.FunSuite {

  private final class Answering extends ConnectionListener {
    val events = mutable.Buffer.empty[String]
    override def received(command: RemotingCommand, connection: Connection): Unit = {
      events += s"received ${command.code} from ${connection.remoteSocket.getAddress.isLoopbackAddress}"
      connection.send(RemotingCommand.response(command.opaque, 0))
      connection.finished(command)
    }
    override def overloaded(command: RemotingCommand, connection: Connection): Unit =
      events += "overloaded"
    override def disconnected(connection: Connection): Unit = events += "disconnected"
  }

  private def rehearsed(settings: (String, String)*): Seq[String] = {
    val listener = new Answering
    val server = new BrokerServer(BrokerConfig.of(settings.toMap))
    server.rehearse(listener)
    server.close()
    listener.events.toSeq
  }

  test("one request is served and its connection ends, before there is a socket") {
    assertEquals(
      rehearsed(),
      Seq(s"received ${RequestCode.GetBrokerClusterInfo} from true", "disconnected")
    )
  }

  test("a broker that would deny the request is not asked") {
    assertEquals(rehearsed("aclFile" -> "users.conf"), Seq.empty)
  }
}
