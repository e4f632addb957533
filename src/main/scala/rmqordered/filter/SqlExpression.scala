package rmqordered.filter

import rmqordered.filter.SqlValue.{False, Missing, Text, True, Truth}

/**
 * A parsed expression. Conditions know three answers, true, false and unknown (`Missing`), joined
 * as in SQL and in RocketMQ's filter: a comparison with a property that is not there is unknown.
 */
sealed abstract class SqlExpression(operands: Iterable[SqlExpression]) {

  /** How many calls deep an evaluation goes. Known without going there. */
  final val depth: Int = 1 + operands.foldLeft(0)((deepest, each) => deepest.max(each.depth))

  /** The properties it is about. */
  def propertyNames: Set[String] = operands.iterator.flatMap(_.propertyNames).toSet

  /** @throws SqlValue.NotComparable when values are compared that have no order */
  def evaluate(properties: Map[String, String]): SqlValue
}

/** An expression whose value is a truth, or unknown. */
sealed abstract class SqlCondition(operands: Iterable[SqlExpression])
    extends SqlExpression(operands)

object SqlExpression {

  final case class Constant(value: SqlValue) extends SqlExpression(Nil) {
    override def evaluate(properties: Map[String, String]): SqlValue = value
  }

  final case class Property(name: String) extends SqlExpression(Nil) {
    override def propertyNames: Set[String] = Set(name)

    override def evaluate(properties: Map[String, String]): SqlValue =
      properties.get(name).fold[SqlValue](Missing)(Text(_))
  }

  final case class Negate(operand: SqlExpression) extends SqlExpression(Seq(operand)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      operand.evaluate(properties) match {
        case SqlValue.Whole(number) => SqlValue.Whole(-number)
        case SqlValue.Real(number) => SqlValue.Real(-number)
        case _ => Missing
      }
  }

  /** TRUE, FALSE or NULL standing where a condition stands. */
  final case class ConstantCondition(value: SqlValue) extends SqlCondition(Nil) {
    override def evaluate(properties: Map[String, String]): SqlValue = value
  }

  /** A bare property as a condition: there, but a text is no truth. */
  final case class PropertyCondition(name: String) extends SqlCondition(Nil) {
    override def propertyNames: Set[String] = Set(name)

    override def evaluate(properties: Map[String, String]): SqlValue =
      if (properties.contains(name)) False else Missing
  }

  final case class Not(operand: SqlCondition) extends SqlCondition(Seq(operand)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      operand.evaluate(properties) match {
        case Truth(value) => Truth(!value)
        case _ => Missing
      }
  }

  /** All of them, from left to right, up to the first that is false. Chains are long, not deep. */
  final case class And(operands: Vector[SqlCondition]) extends SqlCondition(operands) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      joined(operands, properties, decisive = False, otherwise = True)
  }

  /** One of them, from left to right, up to the first that is true. */
  final case class Or(operands: Vector[SqlCondition]) extends SqlCondition(operands) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      joined(operands, properties, decisive = True, otherwise = False)
  }

  private def joined(
      operands: Vector[SqlCondition],
      properties: Map[String, String],
      decisive: SqlValue,
      otherwise: SqlValue
  ): SqlValue = {
    val values = operands.iterator.map(_.evaluate(properties))
    var result = otherwise
    while (result != decisive && values.hasNext) {
      val value = values.next()
      if (value == decisive) result = decisive
      else if (value != otherwise) result = Missing
    }
    result
  }

  final case class Equal(left: SqlExpression, right: SqlExpression)
      extends SqlCondition(Seq(left, right)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      (left.evaluate(properties), right.evaluate(properties)) match {
        case (Missing, Missing) => True
        case (Missing, _) => Missing
        case (_, Missing) => False
        case (a, b) => Truth(SqlValue.areEqual(a, b))
      }
  }

  final case class IsNull(operand: SqlExpression) extends SqlCondition(Seq(operand)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      Truth(operand.evaluate(properties) == Missing)
  }

  /** `holds` judges the sign of the order of left and right. */
  final case class Compare(left: SqlExpression, right: SqlExpression, holds: Int => Boolean)
      extends SqlCondition(Seq(left, right)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      (left.evaluate(properties), right.evaluate(properties)) match {
        case (Missing, _) | (_, Missing) => Missing
        case (a, b) => Truth(holds(SqlValue.order(a, b)))
      }
  }

  final case class In(property: Property, texts: Set[String]) extends SqlCondition(Seq(property)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      properties.get(property.name).fold[SqlValue](Missing)(text => Truth(texts.contains(text)))
  }

  /** CONTAINS and its kin. Without a text, or with nothing to look for, false even if negated. */
  final case class TextTest(
      operand: SqlExpression,
      sought: String,
      holds: String => Boolean
  ) extends SqlCondition(Seq(operand)) {
    override def evaluate(properties: Map[String, String]): SqlValue =
      if (sought.isEmpty) False
      else
        operand.evaluate(properties) match {
          case Text(text) => Truth(holds(text))
          case _ => False
        }
  }
}
