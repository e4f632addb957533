package rmqordered.protocol

import java.nio.ByteBuffer

import scala.util.Random

class FrameCodecSuite extends munit.FunSuite {
  private val MaxFrame = 1 << 20

  private def withoutLength(frame: Array[Byte]): Array[Byte] = frame.drop(FrameCodec.LengthBytes)

  Golden.cases("frames.json").foreach { golden =>
    val serialize = golden.get("serialize").asText()
    val name = s"${golden.get("name").asText()} ($serialize)"
    val serializeType =
      if (serialize == "JSON") SerializeType.Json else SerializeType.RocketMq
    val hex = golden.get("hex").asText()

    test(s"golden frame, encoded: $name") {
      val command = Golden.command(golden.get("command"))
      assertEquals(Golden.hex(FrameCodec.encode(command, serializeType)), hex)
    }

    test(s"golden frame, decoded: $name") {
      val decoded = FrameCodec.decode(withoutLength(Golden.bytes(hex)))
      val expected = Golden.command(golden.get("command"))
      assertEquals(decoded.copy(body = Body.empty), expected.copy(body = Body.empty))
      assertEquals(Golden.hex(decoded.body.toArray), Golden.hex(expected.body.toArray))
    }
  }

  private def json(header: String): RemotingCommand = {
    val bytes = header.getBytes("UTF-8")
    val frame = ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes)
    FrameCodec.decode(frame.array())
  }

  test("ext values that are numbers or booleans are read as text, nulls and nested ones dropped") {
    val command = json(
      """{"code":11,"extFields":{"a":7,"b":true,"c":1.5,"d":null,"e":{"x":1},"f":[1],"g":"t"}}"""
    )
    assertEquals(
      command.extFields,
      Some(ExtFields("a" -> "7", "b" -> "true", "c" -> "1.5", "g" -> "t"))
    )
  }

  test("unknown keys are skipped, numeric strings taken for numbers, ordinals for languages") {
    val command =
      json("""{"new":{"a":[1,2]},"code":"34","language":9,"opaque":"-5","version":401}""")
    assertEquals(
      (command.code, command.language, command.opaque, command.version),
      (34, "GO", -5, 401)
    )
  }

  test("an unknown language is OTHER, a missing one JAVA") {
    assertEquals(json("""{"language":"COBOL"}""").language, "OTHER")
    assertEquals(json("""{}""").language, "JAVA")
  }

  test("control characters and quotes are escaped and come back") {
    val command = RemotingCommand.response(1, 0, Some("a\"b\\c\n\t\r\b\f\u0001\u001f/é"))
    val header = new String(FrameCodec.encodeHeader(command, SerializeType.Json), "UTF-8")
    val expected = "\"remark\":\"a\\\"b\\\\c\\n\\t\\r\\b\\f" + "\\" + "u0001" + "\\" + "u001F/é\""
    assert(header.contains(expected), header)
    assertEquals(json(header).remark, command.remark)
  }

  test("lengths that lie are refused before anything is read for them") {
    Seq(-1, Int.MinValue, 0, 3, MaxFrame - 3, Int.MaxValue).foreach { length =>
      intercept[ProtocolError](FrameCodec.ensureLength(length, MaxFrame))
    }
    FrameCodec.ensureLength(4, MaxFrame)
    FrameCodec.ensureLength(MaxFrame - 4, MaxFrame)
  }

  test("a header longer than its frame and an unknown serialize type are refused") {
    intercept[ProtocolError](FrameCodec.ensureHeaderWord(5, 8))
    intercept[ProtocolError](FrameCodec.ensureHeaderWord(0x02000000, 8))
    intercept[ProtocolError](FrameCodec.ensureHeaderWord(0xff000001, 8))
    FrameCodec.ensureHeaderWord(4, 8)
  }

  test("a broken JSON header is refused with its reason") {
    Seq("", "[]", "nope", "{\"code\":", "{\"code\":99999999999}", "{\"opaque\":\"x\"}").foreach {
      header =>
        intercept[ProtocolError](json(header))
    }
  }

  test("garbage of any kind gives a command or a ProtocolError, nothing else") {
    val random = new Random(7)
    val samples =
      Golden.cases("frames.json").map(c => withoutLength(Golden.bytes(c.get("hex").asText())))
    (1 to 20000).foreach { i =>
      val frame = samples(i % samples.length).clone()
      (0 to random.nextInt(4)).foreach(_ =>
        frame(random.nextInt(frame.length)) = random.nextInt().toByte
      )
      val cut = if (random.nextBoolean()) frame else frame.take(random.nextInt(frame.length + 1))
      try FrameCodec.decode(cut)
      catch { case _: ProtocolError => () }
    }
  }
}
