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

  private def request(stamps: String*) =
    StampedRequest.of(stamps.map(stamp => Option.when(stamp.nonEmpty)(s"$stamp/0123456789abcdef")))

  test("the stamps of a request make one piece of one stream") {
    assertEquals(request("", ""), Right(None))
    val made = request("s/1/2/3", "s/1/2/4").toOption.flatten.get
    assertEquals((made.firstSequence, made.lastSequence, made.digests.length), (3L, 4L, 2))
    assert(made.contains(4) && !made.contains(5))
  }

  test("a mixture is refused with a sentence") {
    assert(request("s/1/2/3", "").left.exists(_.startsWith("All messages of a request carry")))
    Seq("s/1/2/5", "s/1/2/3", "s/2/2/4", "s/1/3/4", "t/1/2/4").foreach { second =>
      assert(request("s/1/2/3", second).left.exists(_.contains("does not follow")), second)
    }
    assert(request("s/1/2/3", "s/1/2").isLeft)
  }
}
