package rmqordered.handler

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.protocol.RemotingCommand
import rmqordered.util.Json

/**
 * One request being served: its fields, typed, and the way to answer it, once, from any thread, now
 * or later. A one-way request is never answered.
 */
final class Call(val command: RemotingCommand, val connection: Connection) {
  private val answered = new AtomicBoolean(false)

  def answer(response: Response): Unit =
    if (answered.compareAndSet(false, true) && !command.isOneWay)
      connection.send(
        RemotingCommand.response(
          command.opaque,
          response.code,
          response.remark,
          response.extFields,
          response.body
        )
      )

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

  def jsonBody: ObjectNode =
    try Json.parseObject(command.body.toArray)
    catch { case error: IOException => throw Failures.badBody(firstLine(error)) }

  private def firstLine(error: IOException): String =
    Option(error.getMessage).fold("")(_.linesIterator.nextOption().getOrElse(""))
}
