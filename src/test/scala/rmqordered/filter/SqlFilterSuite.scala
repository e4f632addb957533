package rmqordered.filter

import rmqordered.Proves._

/** RocketMQ's SQL92 filter: what its own parser and evaluator say of the same expressions. */
class SqlFilterSuite extends munit.FunSuite {
  private val message = Map(
    "a" -> "5",
    "b" -> "hello",
    "price" -> "12.5",
    "vip" -> "true",
    "TAGS" -> "TagA",
    "quote" -> "it's"
  )

  private def matches(expression: String): Boolean =
    SqlFilter.parse(expression).fold(
      problem => fail(s"$expression: $problem"),
      _.matchesProperties(message)
    )

  private def problem(expression: String): String =
    SqlFilter.parse(expression).left.getOrElse(fail(s"$expression was accepted"))

  private def expect(wanted: Boolean)(expressions: String*): Unit =
    expressions.foreach(expression => assertEquals(matches(expression), wanted, expression))

  test("numbers are compared as numbers, texts are read as such") {
    expect(true)(
      "a = 5",
      "a > 4",
      "a >= 5",
      "a < 6",
      "a <= 5",
      "5 = a",
      "4 < a",
      "a <> 6",
      "a > -1"
    )
    expect(true)("price = 12.5", "price > 12.0", "price < 1.3E1", "price > .5", "a = 5L", "a < 5.5")
    expect(false)("a = 6", "a > 5", "a < 5", "a <> 5", "price < 12.5")
  }

  test("texts and truths are equal or not") {
    expect(true)(
      "b = 'hello'",
      "b <> 'world'",
      "TAGS = 'TagA'",
      "vip = TRUE",
      "vip = true",
      "quote = 'it''s'"
    )
    expect(false)("b = 'Hello'", "b = ''", "vip = FALSE", "vip <> TRUE")
  }

  test("ranges and lists include their ends and members") {
    expect(true)(
      "a BETWEEN 5 AND 7",
      "a between 3 and 5",
      "a NOT BETWEEN 6 AND 9",
      "TAGS IN ('TagA', 'TagB')"
    )
    expect(true)("TAGS NOT IN ('TagB')", "a BETWEEN 0 AND 9 AND b = 'hello'")
    expect(false)(
      "a BETWEEN 6 AND 7",
      "TAGS IN ('TagB')",
      "TAGS NOT IN ('TagA')",
      "a NOT BETWEEN 5 AND 5"
    )
  }

  test("texts can be searched, but not for nothing") {
    expect(true)("b CONTAINS 'ell'", "b STARTSWITH 'he'", "b ENDSWITH 'lo'", "b NOT CONTAINS 'x'")
    expect(true)("b NOT STARTSWITH 'lo'", "b NOT ENDSWITH 'he'")
    expect(false)(
      "b CONTAINS 'x'",
      "b CONTAINS ''",
      "b NOT CONTAINS ''",
      "none CONTAINS 'x'",
      "none NOT CONTAINS 'x'"
    )
  }

  test("a property that is not there is null, and a comparison with it unknown") {
    expect(true)("none IS NULL", "a IS NOT NULL", "none IS NULL AND a = 5", "none = 1 OR a = 5")
    expect(false)(
      "none IS NOT NULL",
      "a IS NULL",
      "none = 1",
      "none <> 1",
      "none > 1",
      "NOT (none = 1)"
    )
    expect(false)(
      "none = 1 AND a = 5",
      "none IN ('x')",
      "none NOT IN ('x')",
      "none BETWEEN 1 AND 2"
    )
  }

  test("AND binds tighter than OR, parentheses tighter than both, NOT tightest") {
    expect(true)(
      "a = 1 AND a = 2 OR a = 5",
      "a = 5 OR a = 1 AND a = 2",
      "NOT (a = 1)",
      "TRUE",
      "not false"
    )
    expect(false)("a = 5 AND (a = 1 OR a = 2)", "NOT (a = 5)", "FALSE", "NULL", "a AND a = 5")
  }

  test("values without an order make the whole expression fail for that message") {
    expect(false)("b > 5", "b = 5", "b > 5 OR a = 5", "a > b", "price = 12")
    // RocketMQ reads a text as the kind of number it is compared with, and 12.5 is no whole one.
    expect(false)("price > 12", "price <> 12", "TRUE = vip", "FALSE <> vip")
  }

  test("what is no condition is refused with a sentence that says where") {
    assertEquals(
      problem("a >"),
      "The SQL92 expression cannot be read: a property, a value or '(' is expected at character 4, found the end."
    )
    assert(problem("").contains("character 1"))
    assert(problem("a = 'x").contains("the text that starts at character 5 has no end"))
    assert(problem("a # 1").contains("'#' at character 3 means nothing"))
    Seq(
      "5",
      "a = NULL",
      "TRUE = 5",
      "'x' < 5",
      "a < 'x'",
      "a < TRUE",
      "a IN (1)",
      "a IN ()",
      "5 IN ('x')",
      "(a = 1"
    )
      .foreach(problem)
    Seq(
      "a = 1 b = 2",
      "a IS 5",
      "a NOT 5",
      "a BETWEEN 1",
      "a BETWEEN 7 AND 5",
      "AND",
      "-a",
      "a CONTAINS b"
    )
      .foreach(problem)
    problem("a = 99999999999999999999")
  }

  test("hostile expressions are refused before they cost a stack") {
    assert(problem("(" * 5000 + "a = 1" + ")" * 5000).contains("nested"))
    assert(problem("NOT " * 4000 + "a").contains("nested"))
    assert(problem("a = 1 OR " * 2000 + "a = 1").contains("16384"))
    expect(true)("a = 1 OR " * 1500 + "a = 5")
  }

  test("however an expression is chained, whoever evaluates it needs little stack".proves(
    "filter-costs-its-own"
  )) {
    Seq(
      "a" + "=a" * 8000,
      "a" + "<>a" * 5000,
      "a" + " IS NULL" * 2000,
      "a" + " CONTAINS 'x'" * 1200,
      "a" + " NOT ENDSWITH 'x' <> b" * 700
    ).foreach(expression => assert(problem(expression).contains("chained"), expression.take(40)))
    val deepest = Seq("(a = 5 OR b = " * 95 + "a" + ")" * 95, "a = 5 AND " * 1600 + "a = 5") ++
      Seq("a" + " = a" * 400)
    deepest.foreach { expression =>
      val filter = SqlFilter.parse(expression).fold(problem => fail(problem), identity)
      @volatile var outcome: Option[Throwable] = None
      val evaluate: Runnable = () => { val _ = filter.matchesProperties(message) }
      val thread = new Thread(null, evaluate, "small stack", 180L * 1024)
      thread.setUncaughtExceptionHandler((_, error) => outcome = Some(error))
      thread.start()
      thread.join()
      assertEquals(outcome, None, expression.take(40))
    }
  }
}
