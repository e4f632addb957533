package rmqordered.dedup

import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.protocol.Slice

class StampedRequestSuite extends munit.FunSuite {

  private def request(stamps: String*) =
    StampedRequest.of(
      stamps.toVector.map(s => if (s.isEmpty) Slice.empty else slice(s"$s/0123456789abcdef"))
    )

  // Not at the beginning of its array, as in a message.
  private def slice(text: String): Slice = {
    val bytes = s"xx${text}yy".getBytes(UTF_8)
    new Slice(bytes, 2, bytes.length - 4)
  }

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

  test("every byte of every stamp counts") {
    val stamps = Vector.tabulate(12)(i => s"sink.a-1/17/3/${98 + i}/00000000000${10000 + i}")
    val whole = StampedRequest.of(stamps.map(slice)).toOption.flatten.get
    assertEquals((whole.sink, whole.batch, whole.partition), ("sink.a-1", 17L, 3L))
    assertEquals((whole.firstSequence, whole.lastSequence), (98L, 109L))
    assertEquals(whole.digestOf(101), 0x10003L)
    for {
      number <- stamps.indices
      at <- stamps(number).indices
      char <- Seq('0', '1', '9', 'a', 'f', 'g', 'A', '/', '-', ' ', '\u00e4')
    } {
      val spoiled = stamps.updated(number, stamps(number).updated(at, char))
      val expected = reference(spoiled)
      val found = StampedRequest.of(spoiled.map(slice))
      assertEquals(found.toOption.flatten.map(_.digests.toVector), expected, spoiled(number))
    }
  }

  test("a stamp that is cut off or too long is refused wherever it is") {
    val good = Vector("s/1/2/3/0123456789abcdef", "s/1/2/4/0123456789abcdef")
    good.indices.foreach { number =>
      good(number).indices.foreach { length =>
        val cut = good.updated(number, good(number).take(length))
        assert(StampedRequest.of(cut.map(slice)).isLeft, cut.toString)
      }
      val long = good.updated(number, good(number) + "0")
      assert(StampedRequest.of(long.map(slice)).isLeft)
    }
  }

  /** Stamp by stamp. */
  private def reference(texts: Vector[String]): Option[Vector[Long]] = {
    val stamps = texts.map(SendStamp.parse(_).toOption)
    for {
      all <- Option.when(stamps.forall(_.isDefined))(stamps.flatten)
      first = all.head
      if all.zipWithIndex.forall { case (stamp, i) =>
        (
          stamp.sink,
          stamp.batch,
          stamp.partition
        ) == ((first.sink, first.batch, first.partition)) &&
        stamp.sequence == first.sequence + i
      }
    } yield all.map(_.digest)
  }
}
