package rmqordered.filter

import rmqordered.model.{MessageFilter, Subscription}

/**
 * RocketMQ's SQL92 filter: an expression over a message's properties. A message passes if the
 * expression is true of it; unknown and incomparable mean no. Immutable, any thread.
 */
final class SqlFilter private (condition: SqlCondition) extends MessageFilter {
  override def matches(tagsCode: Long): Boolean = true

  override def readsProperties: Boolean = true

  override val propertyNames: Set[String] = condition.propertyNames

  override def matchesProperties(properties: Map[String, String]): Boolean =
    try condition.evaluate(properties) == SqlValue.True
    catch { case _: SqlValue.NotComparable => false }
}

object SqlFilter {

  /** The filter, or a sentence saying what is wrong with the expression. */
  def parse(expression: String): Either[String, SqlFilter] =
    try {
      if (expression.length > Subscription.MaxLength)
        throw new SqlError(s"it has more than ${Subscription.MaxLength} characters")
      Right(new SqlFilter(new SqlParser(SqlLexer.tokens(expression)).parse()))
    } catch {
      case error: SqlError =>
        Left(s"The SQL92 expression cannot be read: ${error.getMessage}.")
    }
}
