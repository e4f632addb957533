package rmqordered.handler

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.slf4j.LoggerFactory

import rmqordered.auth.Signature
import rmqordered.protocol.{Body, ExtFields, RemotingCommand}
import rmqordered.util.{Clock, Survive}

/** Why a client's answer did not come. */
sealed trait NoAnswer

object NoAnswer {
  case object TimedOut extends NoAnswer
  case object Disconnected extends NoAnswer
}

/**
 * Requests from this broker to its clients: those that expect no answer, and those whose answer is
 * waited for, without a thread. Each waiting request ends exactly once: answered, too late, or
 * disconnected.
 *
 * Everything that one client's request makes another one hear goes through here, and loses on the
 * way what proves who asked; answers that are carried back lose it too.
 *
 * Thread-safe. A timer calls `expire`.
 */
final class ClientCalls(clock: Clock, timeoutMs: Long) {
  import ClientCalls._

  private val opaques = new AtomicInteger()
  private val waiting = new ConcurrentHashMap[Key, Waiting]()

  def tell(connection: Connection, code: Int, fields: ExtFields, body: Body = Body.empty): Unit = {
    connection.send(request(opaques.getAndIncrement(), code, fields, body))
  }

  /** The same, and says when the client has taken it, or never will. */
  def tellThen(connection: Connection, code: Int, fields: ExtFields)(taken: () => Unit): Unit =
    connection.sendThen(request(opaques.getAndIncrement(), code, fields, Body.empty), taken)

  def ask(connection: Connection, code: Int, fields: ExtFields, body: Body)(
      done: Either[NoAnswer, RemotingCommand] => Unit
  ): Unit = {
    val opaque = opaques.getAndIncrement()
    waiting.put(Key(connection, opaque), Waiting(clock.monotonicMillis() + timeoutMs, done))
    connection.send(request(opaque, code, fields, body).copy(flag = 0))
  }

  private def request(opaque: Int, code: Int, fields: ExtFields, body: Body): RemotingCommand =
    RemotingCommand.oneWayRequest(opaque, code, Signature.stripped(fields)).copy(body = body)

  /** Takes a response; false if nobody waits for it. */
  def answered(connection: Connection, response: RemotingCommand): Boolean = {
    val fields = response.extFields.map(Signature.stripped)
    end(Key(connection, response.opaque), Right(response.copy(extFields = fields)))
  }

  def expire(): Unit = {
    val now = clock.monotonicMillis()
    waiting.forEach { (key, call) =>
      if (call.deadline <= now) { val _ = end(key, Left(NoAnswer.TimedOut)) }
    }
  }

  def disconnect(connection: Connection): Unit =
    waiting.keySet().forEach { key =>
      if (key.connection eq connection) { val _ = end(key, Left(NoAnswer.Disconnected)) }
    }

  private def end(key: Key, outcome: Either[NoAnswer, RemotingCommand]): Boolean = {
    val call = Option(waiting.remove(key))
    call.foreach(each => Survive(logger, "what waited for a client's answer")(each.done(outcome)))
    call.isDefined
  }
}

object ClientCalls {
  private val logger = LoggerFactory.getLogger(classOf[ClientCalls])
  private final case class Key(connection: Connection, opaque: Int)
  private final case class Waiting(deadline: Long, done: Either[NoAnswer, RemotingCommand] => Unit)
}
