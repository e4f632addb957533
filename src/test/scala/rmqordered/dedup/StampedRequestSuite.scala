package rmqordered.dedup

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.protocol.{RecordContent, Slice}

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

  private def once(stream: String, digests: Long*): Either[String, StampedRequest] = {
    val bytes = ByteBuffer.allocate(3 + 8 * digests.length).put(new Array[Byte](3))
    digests.foreach(bytes.putLong)
    StampedRequest.once(stream, new Slice(bytes.array(), 3, 8 * digests.length))
  }

  test("a stamp for the whole request says what each message is") {
    val made = once("s.x/1/2/3", 7L, -1L).toOption.get
    assertEquals(
      (made.sink, made.batch, made.partition, made.firstSequence),
      ("s.x", 1L, 2L, 3L)
    )
    assertEquals((made.digestOf(3), made.digestOf(4), made.lastSequence), (7L, -1L, 4L))
    assertEquals(made.run(0), RunStamp(SendStamp("s.x", 1L, 2L, 4L, -1L), 2))
    assertEquals(made.run(1).firstSequence, 4L)
  }

  test("whatever is not exactly a stream and a sequence is refused with what was found") {
    val nines = "9" * 18
    assert(once(s"s/$nines/$nines/$nines", 1L).isRight)
    Seq(
      "",
      "s/1/2",
      "s/1/2/3/4",
      "s/1/2/3/0123456789abcdef",
      "/1/2/3",
      "s/01/2/3",
      "s/1/-2/3",
      "s/1/2/",
      "s s/1/2/3",
      "s" * 65 + "/1/2/3",
      s"s/1/2/${nines}0"
    ).foreach { text =>
      assert(once(text, 1L).left.exists(_.contains(s"'${text.take(120)}'")), text)
    }
    assert(once(s"s/1/2/$nines", 1L, 2L).isLeft, "the last one would be too long a number")
  }

  test("only the last record carries the stamp of a request, behind what it has") {
    val contents = Vector("a\u0001b", "", "RMQO_STAMP\u0001\u0002").map { properties =>
      new RecordContent(7, Slice("body".getBytes), Slice(properties.getBytes))
    }
    val made = once("s/1/2/0", 1L, 2L, 3L).toOption.get
    val stored = made.toStore(contents, 0)
    assertEquals(stored.take(2), contents.take(2))
    assertEquals(stored.last.marks.stamp.text, "s/1/2/2/0000000000000003/3")
    assertEquals((stored.last.flag, stored.last.bodyCrc), (7, contents.last.bodyCrc))
    assertEquals(
      made.toStore(contents, 2).map(_.marks.stamp.text),
      Vector("s/1/2/2/0000000000000003/1")
    )
    val open = once("s/1/2/0", 1L).toOption.get.toStore(contents.take(1), 0).head
    assertEquals(
      open.properties.text,
      "a\u0001b\u0002RMQO_STAMP\u0001s/1/2/0/0000000000000001/1\u0002"
    )
    assertEquals(made.copy(isStampedOnce = false).toStore(contents, 1), contents.drop(1))
  }

  test("a stored stamp is read in both forms, and nothing else is") {
    val stamp = SendStamp("s", 1L, 2L, 3L, 4L)
    assertEquals(RunStamp.parse(stamp.text), Some(RunStamp(stamp, 1)))
    assertEquals(RunStamp.parse(stamp.text + "/4"), Some(RunStamp(stamp, 4)))
    Seq("/5", "/0", "/04", "/-1", "/", "/4/4", "/x").foreach { count =>
      assertEquals(RunStamp.parse(stamp.text + count), None, count)
    }
    assertEquals(RunStamp.parse(""), None)
    assertEquals(RunStamp.parse("/4"), None)
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
