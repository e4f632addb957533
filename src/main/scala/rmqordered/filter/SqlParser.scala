package rmqordered.filter

import rmqordered.filter.SqlExpression._

/**
 * Reads RocketMQ's SQL92 subset, from loose to tight: OR; AND; `=`, `<>`, IS [NOT] NULL; `<`, `<=`,
 * `>`, `>=`, [NOT] BETWEEN, [NOT] IN, [NOT] CONTAINS, STARTSWITH, ENDSWITH; NOT, sign; literals,
 * properties, parentheses. Keywords in any case.
 *
 * One use per expression. Depth is limited, of what is read and of what is made of it: expressions
 * come from clients.
 */
final class SqlParser(tokens: Vector[SqlToken]) {
  import SqlParser._

  private var position = 0
  private var depth = 0
  private var searches = 0

  /** @throws SqlError when the tokens are no condition */
  def parse(): SqlCondition = {
    val found = or()
    if (peek.kind != SqlToken.End) throw unexpected("the end")
    // Loops make trees too: a = b = c is (a = b) = c. Whoever evaluates it has one small stack.
    if (found.depth > MaxTreeDepth)
      throw new SqlError(s"its comparisons are chained more than $MaxTreeDepth deep")
    if (searches > MaxSearches) throw new SqlError(s"it has more than $MaxSearches times CONTAINS")
    condition(found)
  }

  private def or(): SqlExpression = chain("OR", () => and())(Or(_))

  private def and(): SqlExpression = chain("AND", () => equality())(And(_))

  private def chain(word: String, operand: () => SqlExpression)(
      join: Vector[SqlCondition] => SqlCondition
  ): SqlExpression = {
    val first = operand()
    if (!peek.isWord(word)) first
    else {
      val operands = Vector.newBuilder[SqlCondition] += condition(first)
      while (takeWord(word)) operands += condition(operand())
      join(operands.result())
    }
  }

  private def equality(): SqlExpression = {
    var left = comparison()
    var goOn = true
    while (goOn)
      if (takeSymbol("=")) left = equal(left, comparison())
      else if (takeSymbol("<>")) left = Not(equal(left, comparison()))
      else if (takeWord("IS")) {
        val isNegated = takeWord("NOT")
        if (!takeWord("NULL")) throw unexpected("NULL")
        left = negatedIf(isNegated, IsNull(left))
      } else goOn = false
    left
  }

  private def equal(left: SqlExpression, right: SqlExpression): SqlCondition = {
    Seq(left, right).foreach {
      case ConstantCondition(SqlValue.Missing) => throw new SqlError("NULL is asked for by IS NULL")
      case _ => ()
    }
    (left, right) match {
      case (_: ConstantCondition, _: Constant) =>
        throw new SqlError("TRUE and FALSE are no text and no number")
      case _ => Equal(left, right)
    }
  }

  private def comparison(): SqlExpression = {
    var left = unary()
    var goOn = true
    while (goOn)
      comparisonWith(left) match {
        case Some(found) => left = found
        case None => goOn = false
      }
    left
  }

  private def comparisonWith(left: SqlExpression): Option[SqlCondition] =
    orders.find { case (symbol, _) => takeSymbol(symbol) } match {
      case Some((_, holds)) => Some(compare(left, unary(), holds))
      case None =>
        val isNegated = takeWord("NOT")
        val found = wordComparison(left, isNegated)
        if (isNegated && found.isEmpty)
          throw unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        found
    }

  private def wordComparison(left: SqlExpression, isNegated: Boolean): Option[SqlCondition] =
    if (takeWord("BETWEEN")) Some(between(left, isNegated))
    else if (takeWord("IN")) Some(negatedIf(isNegated, in(left)))
    else
      textTests.find { case (word, _) => takeWord(word) }.map { case (word, testFor) =>
        if (word == Contains) searches += 1
        val sought = quoted()
        val holds = testFor(sought)
        TextTest(left, sought, text => holds(text) != isNegated)
      }

  private def compare(
      left: SqlExpression,
      right: SqlExpression,
      holds: Int => Boolean
  ): SqlCondition = {
    Seq(left, right).foreach {
      case Constant(_: SqlValue.Text) =>
        throw new SqlError("only numbers have an order, texts have none")
      case _: SqlCondition => throw new SqlError("only numbers have an order, conditions have none")
      case _ => ()
    }
    Compare(left, right, holds)
  }

  private def between(left: SqlExpression, isNegated: Boolean): SqlCondition = {
    val low = unary()
    if (!takeWord("AND")) throw unexpected("AND")
    val high = unary()
    (low, high) match {
      case (Constant(a), Constant(b))
          if !isNegated && isNumber(a) && isNumber(b) && SqlValue.order(a, b) > 0 =>
        throw new SqlError("the first value of BETWEEN must not be above the second")
      case _ => ()
    }
    if (isNegated) Or(Vector(compare(left, low, _ < 0), compare(left, high, _ > 0)))
    else And(Vector(compare(left, low, _ >= 0), compare(left, high, _ <= 0)))
  }

  private def in(left: SqlExpression): SqlCondition = left match {
    case property: Property =>
      if (!takeSymbol("(")) throw unexpected("'('")
      var texts = Set(quoted())
      while (takeSymbol(",")) texts += quoted()
      if (!takeSymbol(")")) throw unexpected("')'")
      In(property, texts)
    case _ => throw new SqlError("IN needs a property before it")
  }

  private def unary(): SqlExpression = nested {
    if (takeSymbol("+")) unary()
    else if (takeSymbol("-")) Negate(unary())
    else if (takeWord("NOT")) Not(condition(unary()))
    else primary()
  }

  private def primary(): SqlExpression = {
    val token = take()
    token.kind match {
      case SqlToken.Quoted => Constant(SqlValue.Text(token.text))
      case SqlToken.Whole => Constant(SqlValue.Whole(number(token)(_.toLongOption)))
      case SqlToken.Real =>
        Constant(SqlValue.Real(number(token)(_.toDoubleOption.filter(!_.isInfinite))))
      case SqlToken.Symbol if token.text == "(" =>
        val inner = or()
        if (!takeSymbol(")")) throw unexpected("')'")
        inner
      case SqlToken.Word => word(token)
      case _ => throw unexpected("a property, a value or '('", token)
    }
  }

  private def word(token: SqlToken): SqlExpression =
    if (token.isWord("TRUE")) ConstantCondition(SqlValue.True)
    else if (token.isWord("FALSE")) ConstantCondition(SqlValue.False)
    else if (token.isWord("NULL")) ConstantCondition(SqlValue.Missing)
    else if (keywords.exists(token.isWord)) throw unexpected("a property, a value or '('", token)
    else Property(token.text)

  private def number[T](token: SqlToken)(read: String => Option[T]): T =
    read(token.text).getOrElse(throw new SqlError(s"the number ${token.text} is too large"))

  private def quoted(): String = {
    val token = take()
    if (token.kind != SqlToken.Quoted) throw unexpected("a text in single quotes", token)
    token.text
  }

  private def condition(expression: SqlExpression): SqlCondition = expression match {
    case found: SqlCondition => found
    case Property(name) => PropertyCondition(name)
    case _ => throw new SqlError("a condition is needed where a value stands")
  }

  private def negatedIf(isNegated: Boolean, found: SqlCondition): SqlCondition =
    if (isNegated) Not(found) else found

  private def isNumber(value: SqlValue): Boolean = value match {
    case _: SqlValue.Whole | _: SqlValue.Real => true
    case _ => false
  }

  private def nested[T](parse: => T): T = {
    depth += 1
    if (depth > MaxDepth) throw new SqlError(s"it is nested more than $MaxDepth deep")
    val found = parse
    depth -= 1
    found
  }

  private def peek: SqlToken = tokens(position)

  private def take(): SqlToken = {
    val token = peek
    // The end is never passed.
    if (token.kind != SqlToken.End) position += 1
    token
  }

  private def takeWord(word: String): Boolean = takeIf(peek.isWord(word))

  private def takeSymbol(symbol: String): Boolean = takeIf(peek.isSymbol(symbol))

  private def takeIf(condition: Boolean): Boolean = {
    if (condition) position += 1
    condition
  }

  private def unexpected(wanted: String, found: SqlToken = peek): SqlError =
    new SqlError(s"$wanted is expected at character ${found.at}, found ${found.text}")
}

object SqlParser {
  private val MaxDepth = 100

  // What parentheses allow has a few levels each: OR, AND, =, NOT.
  private val MaxTreeDepth = 5 * MaxDepth

  private val orders: Seq[(String, Int => Boolean)] =
    Seq((">=", _ >= 0), (">", _ > 0), ("<=", _ <= 0), ("<", _ < 0))

  private val Contains = "CONTAINS"

  // Each may go through all of a message's 32 KiB of properties.
  private val MaxSearches = 256

  // What a text has to be, made once per expression.
  private val textTests: Seq[(String, String => String => Boolean)] = Seq(
    (Contains, sought => new TextSearch(sought).isIn(_)),
    ("STARTSWITH", sought => _.startsWith(sought)),
    ("ENDSWITH", sought => _.endsWith(sought))
  )

  private val keywords =
    Seq("NOT", "AND", "OR", "BETWEEN", "IN", "IS", Contains, "STARTSWITH", "ENDSWITH")
}
