package rmqordered.handler

import java.net.InetSocketAddress

import rmqordered.model.HostAddress
import rmqordered.protocol.RemotingCommand

/**
 * The other end of a socket, as handlers see it. Compared by identity. All methods may be called by
 * any thread.
 */
trait Connection {

  def remoteSocket: InetSocketAddress

  /** The client's address, as it is stored in messages. */
  final lazy val remote: HostAddress = HostAddress.of(remoteSocket)

  def send(command: RemotingCommand): Unit

  /**
   * The same, and says when the client has taken it, or never will; where nobody knows, at once.
   */
  def sendThen(command: RemotingCommand, taken: () => Unit): Unit = {
    send(command)
    taken()
  }

  /**
   * Runs a task that will send much, as soon as the client has taken what was sent before. A client
   * that does not read thus costs its own buffer and no more.
   */
  def whenWritable(task: () => Unit): Unit

  /** Runs a task in this connection's turn, behind what waits for that already. */
  def inNextTurn(task: () => Unit): Unit = whenWritable(task)

  /**
   * Goes on with a request that takes more than a turn, when the others of its thread had theirs.
   * Before this connection's further requests: of many long ones only one is half done.
   */
  def goOn(task: () => Unit): Unit = whenWritable(task)

  /** A request of this connection was answered, or needs no answer: it costs nothing any more. */
  def finished(command: RemotingCommand): Unit = ()

  /** A request waits, and what is kept of it has become less. */
  def shrunk(before: RemotingCommand, after: RemotingCommand): Unit = ()

  def close(): Unit
}
