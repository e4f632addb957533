package rmqordered.auth

import rmqordered.Proves._
import rmqordered.model.HostAddress
import rmqordered.protocol.{Body, ExtFields, RemotingCommand}
import rmqordered.util.ManualClock

/** Strictly signed requests: what is signed, and that a copy is refused. */
class StrictSignatureSuite extends munit.FunSuite {
  private val secret = new Secret("12345678")
  private val here = new HostAddress(Array[Byte](127, 0, 0, 1), 1)
  private val session = "abcdefghijklmnop"

  private def command(code: Int, body: String, fields: (String, String)*): RemotingCommand =
    RemotingCommand(
      code,
      "PYTHON",
      479,
      1,
      0,
      None,
      Some(ExtFields(fields: _*)),
      Body(body.getBytes)
    )

  private def signed(plain: RemotingCommand): RemotingCommand = {
    val proof = StrictSignature.SignatureField -> StrictSignature.of(plain, secret)
    plain.copy(extFields = Some(ExtFields(plain.extFields.get.toSeq :+ proof: _*)))
  }

  private final class Rig(startsEmpty: Boolean = true, sessions: Int = 100) {
    val clock = new ManualClock
    private val users = AclFile.parse(
      "user.app.secret=12345678\nuser.app.strict=true\nuser.java.secret=12345678",
      "acl.conf"
    )
    private val checks =
      new StrictChecks(clock, 30000, sessions, startsEmpty, _ == "mq:1", "mq:1")
    private val control = new AccessControl(users, checks)

    def request(
        number: Long,
        at: Long = clock.wallMillis(),
        to: String = "mq:1",
        session: String = session,
        user: String = "app"
    ): RemotingCommand =
      signed(
        command(
          310,
          "x",
          "AccessKey" -> user,
          "b" -> "T1",
          StrictSignature.TimeField -> at.toString,
          StrictSignature.AddressField -> to,
          StrictSignature.NonceField -> s"$session.$number"
        )
      )

    def send(request: RemotingCommand): Either[Denial, User] = control.authenticate(request, here)

    def isServed(request: RemotingCommand): Boolean = send(request).isRight

    def reason(request: RemotingCommand): String = send(request).left.toOption.get.sentence
  }

  test("the signature is the Python client's") {
    val plain = command(310, "hello", "b" -> "Tö", "a" -> "PG", "AccessKey" -> "AK")
    assertEquals(
      StrictSignature.of(plain, new Secret("SK")),
      "snYkeai5WsA+hpJyTM6Y7n1iLRISZxHpjIOGPzi28AM="
    )
  }

  test("another code, name, value or body, or another cut between them, breaks it") {
    val good = StrictSignature.of(command(310, "xy", "ab" -> "cd", "e" -> "f"), secret)
    Seq(
      command(320, "xy", "ab" -> "cd", "e" -> "f"),
      command(310, "xy", "a" -> "cd", "e" -> "f"),
      command(310, "xy", "a" -> "bcd", "e" -> "f"),
      command(310, "xy", "ab" -> "c", "de" -> "f"),
      command(310, "xy", "ab" -> "cdf", "e" -> ""),
      command(310, "xy", "ab" -> "cd", "e" -> "f", "g" -> ""),
      command(310, "1:e1:f2:xy", "ab" -> "cd"),
      command(310, "x", "ab" -> "cd", "e" -> "f")
    ).foreach(forged => assertNotEquals(StrictSignature.of(forged, secret), good))
  }

  test("a copied request is served once, whichever came after it".proves("acl-strict")) {
    val f = new Rig()
    val copied = f.request(1)
    assert(f.isServed(copied))
    assert(f.reason(copied).contains("sent this very request before"))
    assert(f.isServed(f.request(3)))
    assert(f.isServed(f.request(2)))
    Seq(copied, f.request(2), f.request(3)).foreach(again => assert(!f.isServed(again)))
    f.clock.advance(30001)
    assert(f.reason(copied).contains("signed 30001 ms ago"))
  }

  test("every number counts once, in whatever order they come") {
    val seen = new SeenRequests(10, 1000)
    val numbers = new scala.util.Random(7).shuffle((0L until 3000L).toVector)
    val found = (numbers ++ numbers).map(number => seen.admit("app", session, number, 0, 0))
    assertEquals(found.take(3000).toSet, Set[Freshness](Freshness.First))
    assertEquals(found.drop(3000).toSet, Set[Freshness](Freshness.Repeated))
  }

  test("what too many overtook is refused, and may be sent again") {
    val f = new Rig()
    assert(f.isServed(f.request(SeenRequests.Window.toLong)))
    val late = f.send(f.request(0)).left.toOption.get
    assert(late.passes && late.sentence.contains("overtaken"), late.sentence)
    assert(f.isServed(f.request(1)))
    assert(f.isServed(f.request(10L * SeenRequests.Window)))
    assert(f.isServed(f.request(10L * SeenRequests.Window - 1)))
  }

  test("a request for another broker is refused with the way out") {
    val f = new Rig()
    assertEquals(
      f.reason(f.request(1, to = "other:1")),
      "User 'app' has signed for the address 'other:1', this broker is mq:1: use that address, or " +
        "name the other one in the setting aclStrictAddresses."
    )
  }

  test("a clock that is wrong is told") {
    val f = new Rig()
    val now = f.clock.wallMillis()
    assert(f.reason(f.request(1, at = now + StrictChecks.AheadMs + 1)).contains("set the clocks"))
    assert(f.isServed(f.request(1, at = now + StrictChecks.AheadMs)))
    assert(f.isServed(f.request(2, at = now - 30000)))
    assert(!f.isServed(f.request(3, at = now - 30001)))
  }

  test("nothing that an earlier run may have seen counts after a start".proves("acl-strict")) {
    val f = new Rig(startsEmpty = false)
    val copied = f.request(1, at = f.clock.wallMillis() + StrictChecks.AheadMs - 1)
    val denial = f.send(copied).left.toOption.get
    assert(denial.passes && denial.sentence.contains("just started"), denial.sentence)
    f.clock.advance(StrictChecks.AheadMs)
    assert(!f.isServed(copied))
    assert(f.isServed(f.request(2)))
  }

  test(
    "a strict user's plain requests are refused, other users sign as they like".proves("acl-strict")
  ) {
    val f = new Rig()
    def plain(user: String): RemotingCommand = {
      val unsigned = command(310, "x", "AccessKey" -> user, "b" -> "T1")
      val proof = Signature.SignatureField -> Signature.of(unsigned, secret)
      unsigned.copy(extFields = Some(ExtFields(unsigned.extFields.get.toSeq :+ proof: _*)))
    }
    assertEquals(
      f.reason(plain("app")),
      "User 'app' must sign strictly, and this request is signed as RocketMQ does: set " +
        "strictSignature=true in the client."
    )
    assert(f.isServed(plain("java")))
    assert(f.isServed(f.request(1, user = "java")))
    assert(!f.isServed(f.request(1, user = "java")))
  }

  test("what is remembered is bounded, and one user leaves room for the others") {
    val f = new Rig(sessions = 10)
    def name(i: Int) = f"session-number-$i%04d"
    val served = (0 until 20).map(i => f.send(f.request(1, session = name(i))))
    assertEquals(served.count(_.isRight), 5)
    assert(served.flatMap(_.left.toOption).forall(_.passes))
    assert(f.isServed(f.request(1, session = name(0), user = "java")))
    assert(f.isServed(f.request(2, session = name(0))))
    f.clock.advance(30001)
    assertEquals((20 until 40).count(i => f.isServed(f.request(1, session = name(i)))), 5)
  }

  test("a clock that is set back brings no copy back".proves("acl-strict")) {
    val f = new Rig(sessions = 4)
    val copied = f.request(1)
    assert(f.isServed(copied))
    f.clock.advance(30001)
    assert(f.isServed(f.request(1, session = "another-session-id")))
    f.clock.setBack(30001)
    assert(!f.isServed(copied))
    f.clock.advance(1)
    assert(f.isServed(f.request(2)))
  }

  test("a nonce that cannot be read is refused") {
    val f = new Rig()
    Seq("", "short", "toolong" * 20, "with space here!!").foreach { wrong =>
      assert(f.reason(f.request(1, session = wrong)).contains("Nonce"))
    }
    assert(f.reason(f.request(-1)).contains("Nonce"))
  }
}
