package rmqordered.auth

import java.nio.file.{Files, Path}

import rmqordered.config.ConfigError
import rmqordered.model.HostAddress
import rmqordered.protocol.{Body, ExtFields, RemotingCommand}
import rmqordered.util.ManualClock

class AclFileSuite extends munit.FunSuite {
  private val local = new HostAddress(Array[Byte](127, 0, 0, 1), 1)

  private def signed(name: String, secret: String): RemotingCommand = {
    def command(fields: (String, String)*) =
      RemotingCommand(11, "JAVA", 479, 1, 0, None, Some(ExtFields(fields: _*)), Body.empty)
    val signature = Signature.of(command("AccessKey" -> name), new Secret(secret))
    command("AccessKey" -> name, "Signature" -> signature)
  }

  private def control(text: String): AccessControl = {
    val checks = new StrictChecks(new ManualClock, 1000, 10, true, _ => true, "here")
    new AccessControl(AclFile.parse(text, "acl.conf"), checks)
  }

  private def user(text: String, from: HostAddress = local): Either[String, User] =
    control(text).authenticate(signed("app", "12345678"), from).left.map(_.sentence)

  private def app(lines: String*): String =
    ("user.app.secret=12345678" +: lines.map("user.app." + _)).mkString("\n")

  test("the sample gives its users what it says") {
    val sample = control(Files.readString(Path.of("conf/acl.conf")))
    val billing = sample.authenticate(signed("billing", "change-me-second"), local).toOption.get
    assert(billing.may(Need.sub("orders")) && billing.may(Need.pub("invoices")))
    assert(billing.may(Need.member("billing")) && !billing.may(Need.pub("orders")))
    assert(!billing.may(Need.Admin))
    val admin = sample.authenticate(signed("admin", "change-me-first"), local).toOption.get
    assert(admin.may(Need.Admin) && admin.may(Need.pub("anything")))
  }

  test("the exact name wins, then the longest beginning, then nothing") {
    val found =
      user(app("topic.*=SUB", "topic.or*=PUB|SUB", "topic.orders=DENY", "kv.*=PUB")).toOption.get
    assertEquals(
      Seq("orders", "orbit", "other").map(t => (found.may(Need.sub(t)), found.may(Need.pub(t)))),
      Seq((false, false), (true, true), (true, false))
    )
    assert(!found.may(Need.member("g")))
    val bare = user(app()).toOption.get
    assert(!bare.may(Need.sub("orders")) && !bare.may(Need.either("orders")))
  }

  test("a pattern is not a name") {
    val found = user(app("topic.or*=DENY", "topic.*=SUB")).toOption.get
    assert(!found.may(Need.sub("or*")))
  }

  test("a user comes from its addresses only") {
    def from(a: Int, b: Int, c: Int, d: Int) =
      new HostAddress(Array(a.toByte, b.toByte, c.toByte, d.toByte), 1)
    val text = app("whitelist=10.0.0.0/9, 192.168.1.7,::1")
    assert(user(text, from(10, 127, 3, 4)).isRight && user(text, from(192, 168, 1, 7)).isRight)
    assert(user(text, from(10, 128, 0, 0)).isLeft)
    assertEquals(
      user(text, from(192, 168, 1, 8)).left.toOption,
      Some("User 'app' may not come from 192.168.1.8.")
    )
  }

  test("unknown users and wrong secrets are told alike, unsigned requests to sign") {
    val known = control(app())
    def problem(name: String, secret: String) =
      known.authenticate(signed(name, secret), local).left.toOption.get.sentence
    assertEquals(problem("app", "wrong"), "User 'app' is not known or its signature is wrong.")
    assertEquals(problem("spy", "wrong"), "User 'spy' is not known or its signature is wrong.")
    val unsigned = RemotingCommand(11, "JAVA", 479, 1, 0, None, None, Body.empty)
    assert(known.authenticate(unsigned, local).left.exists(_.sentence.contains("not signed")))
  }

  test("who signs strictly is for the file to say, else for the setting") {
    def strict(text: String, byDefault: Boolean) =
      AclFile.parse(text, "acl.conf", byDefault).map(_.isStrict)
    assertEquals(strict(app(), byDefault = true), Seq(true))
    assertEquals(strict(app("strict=false"), byDefault = true), Seq(false))
    assertEquals(strict(app("strict=true"), byDefault = false), Seq(true))
    assertEquals(strict(app(), byDefault = false), Seq(false))
  }

  test("what is not understood stops the broker, without quoting a secret") {
    Seq(
      "" -> "has no user",
      "secret=x" -> "user.NAME.SETTING",
      "user.app.secret=hush" -> "at least 8 characters",
      app("admin=yes") -> "neither true nor false",
      app("strict=perhaps") -> "a flag strict",
      app("topic.orders=READ") -> "'READ' for topic.orders",
      app("topic.orders=") -> "PUB, SUB",
      app("topics.orders=SUB") -> "'topics.orders'",
      app("topic.o*s=SUB") -> "'topic.o*s'",
      app("whitelist=example.org") -> "'example.org'",
      app("whitelist=10.0.0.0/33") -> "'10.0.0.0/33'",
      app("whitelist=10.0.0.256") -> "'10.0.0.256'"
    ).foreach { case (text, part) =>
      val error = intercept[ConfigError](AclFile.parse(text, "acl.conf"))
      assert(error.getMessage.contains(part), error.getMessage)
      assert(!error.getMessage.contains("hush") && !error.getMessage.contains("12345678"))
    }
    assert(
      intercept[ConfigError](AclFile.load(
        "/no/such/file",
        false
      )).getMessage.contains("cannot be read")
    )
  }
}
