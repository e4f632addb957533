package rmqordered.model

class SubscriptionSuite extends munit.FunSuite {

  test("an expression of tags matches their hash codes and nothing else") {
    val filter = TagFilter.parse(" TagA||  TagB || ")
    assert(filter.matches("TagA".hashCode.toLong))
    assert(filter.matches("TagB".hashCode.toLong))
    assert(!filter.matches("TagC".hashCode.toLong))
    assert(!filter.matches(0L))
  }

  test("a star, nothing and blanks match everything") {
    Seq("*", "", "  ", null).foreach { expression =>
      assertEquals(TagFilter.parse(expression), TagFilter.Everything)
    }
    assert(TagFilter.Everything.matches(42L))
  }

  test("a message without a tag has code 0") {
    assertEquals(TagFilter.tagsCode(""), 0L)
  }

  test("a tag expression is one without a type or with the type TAG") {
    def of(expressionType: String) = Subscription("t", "*", expressionType, 0L)
    assert(of("").isTagType)
    assert(of("TAG").isTagType)
    assert(!of("SQL92").isTagType)
  }
}
