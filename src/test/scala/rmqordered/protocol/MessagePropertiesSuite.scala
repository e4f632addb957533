package rmqordered.protocol

class MessagePropertiesSuite extends munit.FunSuite {

  private def tagsCode(text: String): Long =
    MessageProperties.tagsCode(Slice(text.getBytes("UTF-8")))

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

  test("the tag code is the hash of the tag, wherever it stands") {
    assertEquals(tagsCode("TAGS\u0001TagA\u0002"), "TagA".hashCode.toLong)
    assertEquals(tagsCode("k\u0001TAGS\u0002TAGS\u0001TagA"), "TagA".hashCode.toLong)
    assertEquals(tagsCode("XTAGS\u0001TagA\u0002TAGSX\u0001b\u0002"), 0L)
    assertEquals(tagsCode("TAGS\u0001a\u0002TAGS\u0001b\u0002"), "b".hashCode.toLong)
    assertEquals(tagsCode(""), 0L)
  }

  test("the tag code is Java's String.hashCode on every golden key") {
    Golden.cases("hashes.json").map(_.get("key").asText()).filter(_.nonEmpty).foreach { key =>
      val golden = Golden.cases("hashes.json").find(_.get("key").asText() == key).get
      assertEquals(tagsCode(s"TAGS\u0001$key\u0002"), golden.get("hashCode").asLong())
    }
  }
}
