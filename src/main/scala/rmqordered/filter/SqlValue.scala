package rmqordered.filter

/**
 * What an expression comes to. Properties are texts; numbers and truths come from the expression.
 */
sealed trait SqlValue

object SqlValue {
  final case class Text(value: String) extends SqlValue
  final case class Whole(value: Long) extends SqlValue
  final case class Real(value: Double) extends SqlValue
  final case class Truth(value: Boolean) extends SqlValue

  /** No such property; in a condition: unknown. */
  case object Missing extends SqlValue

  val True: SqlValue = Truth(true)
  val False: SqlValue = Truth(false)

  /** Two values that have no order, such as the text `abc` and a number. Carries no stack. */
  final class NotComparable extends Exception(null, null, false, false)

  /**
   * Whether two present values are equal; a text is read as whatever it is compared with.
   *
   * @throws NotComparable
   *   when it cannot be read so
   */
  def areEqual(left: SqlValue, right: SqlValue): Boolean = (left, right) match {
    case (Text(a), Text(b)) => a == b
    case (Truth(a), Truth(b)) => a == b
    case (Text(a), Truth(b)) => a.equalsIgnoreCase("true") == b
    // The same the other way round is an error in RocketMQ, and so is no match.
    case (_: Truth, _: Text) => throw new NotComparable
    case (_: Truth, _) | (_, _: Truth) => false
    case _ => order(left, right) == 0
  }

  /**
   * The order of two present values.
   *
   * @throws NotComparable
   *   when one of them is no number
   */
  def order(left: SqlValue, right: SqlValue): Int = (left, right) match {
    case (Whole(a), Whole(b)) => a.compare(b)
    case (Text(a), Whole(b)) => whole(a).compare(b)
    case (Whole(a), Text(b)) => a.compare(whole(b))
    case _ => java.lang.Double.compare(real(left), real(right))
  }

  // Numbers are shorter; the text of a message may be long, and be read for each comparison.
  private val MaxNumberLength = 1000

  private def whole(text: String): Long = number(text)(_.toLongOption)

  private def number[T](text: String)(read: String => Option[T]): T =
    (if (text.length > MaxNumberLength) None else read(text)).getOrElse(throw new NotComparable)

  private def real(value: SqlValue): Double = value match {
    case Whole(number) => number.toDouble
    case Real(number) => number
    case Text(text) => number(text)(_.toDoubleOption)
    case Truth(_) | Missing => throw new NotComparable
  }
}
