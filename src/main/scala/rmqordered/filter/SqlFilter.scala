package rmqordered.filter

import rmqordered.model.MessageFilter

/**
 * RocketMQ's SQL92 filter: an expression over a message's properties. A message passes if the
 * expression is true of it; unknown and incomparable mean no. Immutable, any thread.
 */
final class SqlFilter private (condition: SqlCondition) extends MessageFilter {
  override def matches(tagsCode: Long): Boolean = true

  override def readsProperties: Boolean = true

  override def matchesProperties(properties: Map[String, String]): Boolean =
    try condition.evaluate(properties) == SqlValue.True
    catch { case _: SqlValue.NotComparable => false }
}

object SqlFilter {

  // A parsed expression takes about twenty times the memory of its text, and is kept.
  private val MaxLength = 16384

  /** The filter, or a sentence saying what is wrong with the expression. */
  def parse(expression: String): Either[String, SqlFilter] =
    try {
      if (expression.length > MaxLength)
        throw new SqlError(s"it has more than $MaxLength characters")
      Right(new SqlFilter(new SqlParser(SqlLexer.tokens(expression)).parse()))
    } catch {
      case error: SqlError =>
        Left(s"The SQL92 expression cannot be read: ${error.getMessage}.")
    }
}
