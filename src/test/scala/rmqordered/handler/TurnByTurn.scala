package rmqordered.handler

import java.net.InetSocketAddress

import scala.collection.mutable

import rmqordered.protocol.{Body, ExtFields, RemotingCommand}

/** A client whose turns come when the test says so. */
final class TurnByTurn extends Connection {
  val turns = mutable.Queue.empty[() => Unit]
  var answers = Vector.empty[RemotingCommand]
  override val remoteSocket = new InetSocketAddress("10.0.0.2", 5)
  override def send(command: RemotingCommand): Unit = answers :+= command
  override def whenWritable(task: () => Unit): Unit = task()
  override def inNextTurn(task: () => Unit): Unit = turns.enqueue(task)
  override def goOn(task: () => Unit): Unit = turns.prepend(task)
  override def close(): Unit = ()

  def request(b: TestBroker, code: Int, fields: Map[String, String]): Unit =
    b.core.received(
      RemotingCommand(
        code,
        "JAVA",
        479,
        1,
        0,
        None,
        Some(ExtFields(fields.toSeq: _*)),
        Body.empty
      ),
      this
    )
}
