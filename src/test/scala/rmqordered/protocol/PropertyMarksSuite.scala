package rmqordered.protocol

import scala.util.Random

class PropertyMarksSuite extends munit.FunSuite {

  private def slice(text: String): Slice = Slice(text.getBytes("UTF-8"))

  private def tagsCode(text: String): Long =
    new RecordContent(0, Slice.empty, slice(text)).tagsCode

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

  test("the marks are what the whole properties say, whatever stands beside them") {
    val random = new Random(11L)
    val names = Vector("TAGS", "KEYS", "UNIQ_KEY", "RMQO_STAMP", "TAG", "KEYSS", "T", "R", "x", "")
    (0 until 20000).foreach { _ =>
      val pairs = Seq.fill(random.nextInt(6)) {
        val name = names(random.nextInt(names.length))
        val separator = if (random.nextInt(8) == 0) "" else "\u0001"
        name + separator + random.alphanumeric.take(random.nextInt(24)).mkString
      }
      val text = pairs.mkString("\u0002") + (if (random.nextBoolean()) "\u0002" else "")
      // Bytes before and after that do not belong to it.
      val around = ("TAGS\u0001no\u0002" + text + "TAGS\u0001no\u0002").getBytes("UTF-8")
      val marks = PropertyMarks.of(new Slice(around, 8, text.length))
      val expected = MessageProperties.decode(text)
      assertEquals(
        Seq(marks.tags, marks.keys, marks.uniqueKey, marks.stamp).map(_.text),
        names.take(4).map(expected.getOrElse(_, "")),
        text
      )
    }
  }

  test("a byte is found where a naive search finds it") {
    val random = new Random(12L)
    (0 until 20000).foreach { _ =>
      val bytes = Array.fill(random.nextInt(40))((random.nextInt(4) * 85).toByte)
      val until = random.nextInt(bytes.length + 1)
      val from = random.nextInt(until + 1)
      val wanted = (random.nextInt(4) * 85).toByte
      val naive = (from until until).find(bytes(_) == wanted).getOrElse(until)
      assertEquals(ByteSearch.indexOf(bytes, wanted, from, until), naive)
    }
  }
}
