package rmqordered.handler

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import rmqordered.filter.SqlFilter
import rmqordered.model.{MessageFilter, Subscription, TagFilter}
import rmqordered.protocol.ResponseCode

/**
 * Makes filters of subscriptions. SQL expressions come again with every pull and are kept parsed.
 */
final class Filters(sqlEnabled: Boolean) {
  import Filters._

  private val characters = new AtomicLong()
  private val parsed = new ConcurrentHashMap[String, Either[String, SqlFilter]]()

  /** @throws Refusal when the subscription's type is not served or its expression cannot be read */
  def of(subscription: Subscription): MessageFilter =
    if (subscription.isTagType) tags(subscription.expression)
    else if (subscription.expressionType == Subscription.SqlType && sqlEnabled)
      sql(subscription.expression) match {
        case Right(filter) => filter
        case Left(problem) => throw new Refusal(ResponseCode.SubscriptionParseFailed, problem)
      }
    else
      throw new Refusal(
        ResponseCode.SystemError,
        s"The broker does not support consumer to filter message by ${subscription.expressionType}"
      )

  private def tags(expression: String): TagFilter = {
    if (expression.length > Subscription.MaxLength)
      throw new Refusal(
        ResponseCode.SubscriptionParseFailed,
        s"The list of tags has ${expression.length} characters, at most " +
          s"${Subscription.MaxLength} are read; subscribe with fewer tags, or with *."
      )
    TagFilter.parse(expression)
  }

  private def sql(expression: String): Either[String, SqlFilter] = {
    // Clients could send ever new expressions; starting afresh is cheap and rare.
    if (parsed.size() > MaxParsed || characters.get() > MaxCharacters) {
      parsed.clear()
      characters.set(0)
    }
    parsed.computeIfAbsent(
      expression,
      text => {
        characters.addAndGet(text.length.toLong)
        SqlFilter.parse(text)
      }
    )
  }
}

object Filters {
  private val MaxParsed = 1000

  // What is parsed takes about twenty times as much memory.
  private val MaxCharacters = 1000000L
}
