package rmqordered.handler

import java.util.concurrent.RejectedExecutionException

import org.slf4j.LoggerFactory

import scala.util.control.NonFatal

import rmqordered.protocol.{ProtocolError, RemotingCommand}
import rmqordered.util.TableFull

/** Where a request is served. */
sealed trait ServedBy

object ServedBy {

  /** The connection's own thread: memory only, microseconds. */
  case object NetworkThread extends ServedBy

  /** The worker: may write and flush a small file. */
  case object Worker extends ServedBy

  /**
   * A worker of their own for locks and unlocks: clients trust a lease for a limited time, so
   * nothing else may delay a renewal.
   */
  case object LeaseWorker extends ServedBy
}

final case class Route(servedBy: ServedBy, handle: Call => Unit)

/**
 * Brings every request to its handler, and turns whatever a handler throws into an answer: a bad
 * request costs its sender an error, never the connection, never the broker.
 *
 * @param onResponse
 *   takes a client's answer to a request of this broker; false if nobody waits for it
 */
final class RequestDispatcher(
    routes: Map[Int, Route],
    worker: ConnectionExecutor,
    leaseWorker: ConnectionExecutor,
    guard: AccessGuard = AccessGuard.open,
    onResponse: (Connection, RemotingCommand) => Boolean = (_, _) => false
) {
  import RequestDispatcher._

  def dispatch(command: RemotingCommand, connection: Connection): Unit =
    if (command.isResponse) {
      if (!onResponse(connection, command))
        logger.debug("< unexpected response opaque={} client={}", command.opaque, connection.remote)
    } else {
      val call = new Call(command, connection)
      routes.get(command.code) match {
        case None => serve(call, _ => throw Failures.unsupported(command.code))
        case Some(Route(ServedBy.NetworkThread, handle)) => serve(call, handle)
        case Some(Route(ServedBy.Worker, handle)) => handOver(worker, call, handle)
        case Some(Route(ServedBy.LeaseWorker, handle)) => handOver(leaseWorker, call, handle)
      }
    }

  private def handOver(to: ConnectionExecutor, call: Call, handle: Call => Unit): Unit =
    try to.execute(call.connection, () => serve(call, handle))
    catch { case _: RejectedExecutionException => call.fail(Failures.busy) }

  private def serve(call: Call, handle: Call => Unit): Unit =
    try {
      guard.ensureAllowed(call)
      handle(call)
    } catch {
      case refusal: Refusal => call.fail(refusal)
      // The client's mistake, in a body that is read late; whoever makes it must not fill our log.
      case unreadable: ProtocolError => call.fail(unreadable)
      case full: TableFull => call.fail(full)
      case NonFatal(error) =>
        logger.warn(
          "request failed code={} client={}",
          call.command.code,
          call.connection.remote,
          error
        )
        call.fail(error)
      // Too deep a stack, a class that is missing: the request is lost, the thread is not.
      case error: Throwable =>
        logger.error("request failed code={}", call.command.code, error)
        call.fail(error)
    }
}

object RequestDispatcher {
  private val logger = LoggerFactory.getLogger(classOf[RequestDispatcher])
}
