package rmqordered.filter

import scala.util.Random

import rmqordered.Proves._

class TextSearchSuite extends munit.FunSuite {

  test("what is found is what Java finds") {
    val random = new Random(7)
    def text(length: Int): String =
      Iterator.fill(random.nextInt(length))("ab".charAt(random.nextInt(2))).mkString
    (1 to 20000).foreach { _ =>
      val (sought, in) = (text(6) + "a", text(20))
      assertEquals(new TextSearch(sought).isIn(in), in.contains(sought), s"'$sought' in '$in'")
    }
  }

  test("an expression may look for so many texts and no more".proves("fair-turns")) {
    def chain(count: Int) = Seq.fill(count)("a CONTAINS 'x'").mkString(" OR ")
    assert(SqlFilter.parse(chain(256)).isRight)
    val refused = SqlFilter.parse(chain(257)).left.getOrElse("")
    assert(refused.contains("more than 256 times CONTAINS"), refused)
  }

  test("a filter says which properties it is about") {
    val filter = SqlFilter.parse("a = 1 AND (b IN ('x') OR NOT c CONTAINS 'y') AND d IS NULL AND e")
    assertEquals(filter.map(_.propertyNames), Right(Set("a", "b", "c", "d", "e")))
  }
}
