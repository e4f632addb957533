package rmqordered.protocol

class MessagePropertiesSuite extends munit.FunSuite {

  test("properties come back in their order, the last value of a repeated name counting") {
    val decoded = MessageProperties.decode("a\u00011\u0002b\u00012\u0002a\u00013\u0002")
    assertEquals(decoded.toSeq, Seq("a" -> "3", "b" -> "2"))
  }

  test("a missing last separator is tolerated, pairs without name or value are dropped") {
    assertEquals(
      MessageProperties.decode("a\u00011\u0002\u0001x\u0002b\u0001\u0002c\u0002d\u00014").toSeq,
      Seq("a" -> "1", "d" -> "4")
    )
    assertEquals(MessageProperties.decode("").toSeq, Nil)
  }
}
