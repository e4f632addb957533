package rmqordered.protocol

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Random

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

  test("selected properties are what decoding all would say of them") {
    val random = new Random(3)
    val pieces = Vector("a", "b", "long", "\u0001", "\u0002", "\u00e4", "x")
    val names = Set("a", "b", "long", "ax")
    (1 to 20000).foreach { _ =>
      val text = Seq.fill(random.nextInt(20))(pieces(random.nextInt(pieces.length))).mkString
      val around = s"junk\u0001$text\u0002a".getBytes(UTF_8)
      val slice = new Slice(around, 5, text.getBytes(UTF_8).length)
      assertEquals(
        MessageProperties.select(slice, names),
        MessageProperties.decode(text).filter { case (name, _) => names.contains(name) }.toMap,
        text
      )
    }
  }
}
