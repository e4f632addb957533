package rmqordered.dedup

class SendStampSuite extends munit.FunSuite {
  private val good = "sink-1/7/3/42/00000000000000ff"

  test("a stamp is read and written alike") {
    val stamp = SendStamp.parse(good)
    assertEquals(stamp, Right(SendStamp("sink-1", 7L, 3L, 42L, 255L)))
    assertEquals(stamp.map(_.text), Right(good))
    val high = "S.x_/0/0/0/ffffffffffffffff"
    assertEquals(SendStamp.parse(high).map(_.text), Right(high))
  }

  test("whatever is not exactly a stamp is refused with what was found") {
    Seq(
      "",
      "sink/1/2/3",
      "sink/1/2/3/0123456789abcdef/x",
      "/1/2/3/0123456789abcdef",
      "si nk/1/2/3/0123456789abcdef",
      "sink/-1/2/3/0123456789abcdef",
      "sink/+1/2/3/0123456789abcdef",
      "sink/01/2/3/0123456789abcdef",
      "sink/1/2/1234567890123456789/0123456789abcdef",
      "sink/1/2/3/0123456789ABCDEF",
      "sink/1/2/3/123456789abcdef",
      "sink/1/2/\u0663/0123456789abcdef",
      "s" * 65 + "/1/2/3/0123456789abcdef"
    ).foreach { text =>
      val problem = SendStamp.parse(text)
      assert(problem.left.exists(_.contains(s"'${text.take(120)}'")), s"$text: $problem")
    }
  }
}
