package rmqordered.schedule

import rmqordered.protocol.{RecordContent, Slice, StoredRecord}

class RefittingSuite extends munit.FunSuite {
  private val stored = new RecordContent(7, Slice("body".getBytes), Slice("a\u0001b".getBytes))

  private def text(content: RecordContent): String = new String(content.properties.toArray)

  private def of(bytes: Int): Seq[(String, String)] = Seq("k" -> "v" * (bytes - 3))

  test("the first properties that fit are taken, to the last byte") {
    val most = StoredRecord.MaxPropertiesBytes
    val second = Refitting.again(stored, of(most + 1), of(most), of(3))
    assertEquals(second.properties.length, most)
    assertEquals((second.flag, second.body), (stored.flag, stored.body))
  }

  test("if none fit, the message keeps those it has, byte for byte") {
    assertEquals(text(Refitting.again(stored, of(40000))), "a\u0001b")
  }

  test("what does not fit is not there, and room is counted in bytes, not in letters") {
    val most = StoredRecord.MaxPropertiesBytes
    assertEquals(Refitting.fitting(of(most + 1)), None)
    assertEquals(Refitting.fitting(Seq("k" -> "\u00e4" * (most / 2))), None)
    assert(Refitting.leave(10, of(most - 10)) && !Refitting.leave(10, of(most - 9)))
  }
}
