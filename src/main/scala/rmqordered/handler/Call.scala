package rmqordered.handler

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.protocol.{Body, ExtFields, RemotingCommand}
import rmqordered.util.{Json, Owner, WorkTurns}

/**
 * One request being served: its fields, typed, and the way to answer it, once, from any thread, now
 * or later. A one-way request is never answered.
 */
final class Call(request: RemotingCommand, val connection: Connection) {
  @volatile private var kept = request
  private val answered = new AtomicBoolean(false)
  @volatile private var sees: String => Boolean = _ => true
  @volatile private var owner: Option[Owner] = None

  def command: RemotingCommand = kept

  /** Whether the one who asks may know that there is such a topic. */
  def maySee(topic: String): Boolean = sees(topic)

  /** On whose account is kept what this call makes the broker remember; nobody's without an ACL. */
  def user: Seq[Owner] = owner.toSeq

  /** A user asks, for whom only such topics are there. */
  def identify(name: String, maySee: String => Boolean): Unit = {
    owner = Some(Owner.user(name))
    sees = maySee
  }

  /** It is going to wait: whatever is not needed when it goes on costs memory and is dropped. */
  def keepOnly(fields: String*): Unit = {
    val before = kept
    val needed = before.extFields.map(all =>
      ExtFields(fields.flatMap(name => all.get(name).map(name -> _)): _*)
    )
    kept = before.copy(remark = None, extFields = needed, body = Body.empty)
    connection.shrunk(before, kept)
  }

  /** Goes on with this request in its connection's next turn. */
  def inNextTurn(step: => Unit): Unit =
    connection.goOn { () =>
      try step
      catch { case error: Throwable => fail(error) }
    }

  /**
   * Makes something of each of many, as many turns as that takes, then goes on with all of it.
   */
  def inTurns[A, B](turns: WorkTurns, items: Iterator[A])(make: A => B)(done: Vector[B] => Unit)
      : Unit = {
    val made = Vector.newBuilder[B]
    def step(): Unit = {
      val turn = turns.begin()
      while (items.hasNext && !turn.isOver) {
        made += make(items.next())
        turn.lookedInto(0)
      }
      if (items.hasNext) inNextTurn(step()) else done(made.result())
    }
    step()
  }

  /** Nobody will hear an answer. */
  def abandon(): Unit = if (answered.compareAndSet(false, true)) connection.finished(command)

  def answer(response: Response): Unit =
    if (answered.compareAndSet(false, true)) {
      connection.finished(command)
      if (!command.isOneWay)
        connection.send(
          RemotingCommand.response(
            command.opaque,
            response.code,
            response.remark,
            response.extFields,
            response.body
          )
        )
    }

  def fail(error: Throwable): Unit = answer(Failures.response(error))

  /** A header field; an empty one counts as absent. */
  def optional(name: String): Option[String] = command.ext(name).filter(_.nonEmpty)

  def text(name: String): String = optional(name).getOrElse(throw Failures.missing(name))

  def int(name: String): Int = optionalInt(name).getOrElse(throw Failures.missing(name))

  def long(name: String): Long = optionalLong(name).getOrElse(throw Failures.missing(name))

  def optionalInt(name: String): Option[Int] =
    optional(name).map(value => value.toIntOption.getOrElse(throw Failures.notANumber(name, value)))

  def optionalLong(name: String): Option[Long] =
    optional(name).map(value =>
      value.toLongOption.getOrElse(throw Failures.notANumber(name, value))
    )

  /** Java's Boolean.parseBoolean: anything but "true" is false. */
  def optionalFlag(name: String): Option[Boolean] = optional(name).map(_.equalsIgnoreCase("true"))

  def jsonBody: ObjectNode = jsonBody(Call.MaxJsonBytes)

  def jsonBody(maxBytes: Int): ObjectNode = {
    val length = command.body.length
    if (length > maxBytes)
      throw Failures.badBody(s"it has $length bytes, at most $maxBytes are read")
    try Json.parseObject(command.body.toArray)
    catch { case error: IOException => throw Failures.badBody(firstLine(error)) }
  }

  private def firstLine(error: IOException): String =
    Option(error.getMessage).fold("")(_.linesIterator.nextOption().getOrElse(""))
}

object Call {

  // Locks of 20,000 queues. What is made of JSON takes up to fifty times its size.
  val MaxJsonBytes: Int = 2 * 1024 * 1024
}
