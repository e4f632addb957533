package rmqordered.auth

import rmqordered.protocol.{Body, ExtFields, RemotingCommand}

class SignatureSuite extends munit.FunSuite {

  private def command(body: String, fields: (String, String)*): RemotingCommand =
    RemotingCommand(310, "JAVA", 479, 1, 0, None, Some(ExtFields(fields: _*)), Body(body.getBytes))

  test("the signature is RocketMQ's") {
    val signed = command("hello", "a" -> "PG", "b" -> "T1", "e" -> "0", "AccessKey" -> "AK")
    assertEquals(Signature.of(signed, new Secret("SK")), "WivPsIza9yytr5zY8U4zTqWq7Oo=")
  }

  test("the signature itself is not signed, and of a repeated field the last value is") {
    val plain = command("x", "AccessKey" -> "AK", "b" -> "T1")
    val signature = Signature.of(plain, new Secret("SK"))
    val signed =
      command("x", "b" -> "T0", "b" -> "T1", "Signature" -> signature, "AccessKey" -> "AK")
    assert(Signature.isGood(signed, new Secret("SK")))
    assert(!Signature.isGood(signed, new Secret("other")))
    assert(!Signature.isGood(plain, new Secret("SK")))
  }

  test("a change of any field or of the body breaks it") {
    val signature = Signature.of(command("x", "AccessKey" -> "AK", "b" -> "T1"), new Secret("SK"))
    Seq(
      command("y", "AccessKey" -> "AK", "b" -> "T1", "Signature" -> signature),
      command("x", "AccessKey" -> "AK", "b" -> "T2", "Signature" -> signature),
      command("x", "AccessKey" -> "AK", "b" -> "T1", "c" -> "more", "Signature" -> signature)
    ).foreach(forged => assert(!Signature.isGood(forged, new Secret("SK"))))
  }

  test("a secret is not shown") {
    assertEquals(new Secret("hush").toString, "***")
  }
}
