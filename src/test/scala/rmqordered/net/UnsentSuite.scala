package rmqordered.net

import scala.collection.mutable

class UnsentSuite extends munit.FunSuite {

  private final class Clients(maxBytes: Long) {
    val unsent = new Unsent(maxBytes)
    val givenUp = mutable.Buffer.empty[String]
    def join(name: String): unsent.Share =
      new unsent.Share(() => { val _ = givenUp += name })
  }

  test("below the limit nobody is given up, and what was taken makes room") {
    val clients = new Clients(100)
    val one = clients.join("one")
    (1 to 10).foreach { _ =>
      one.sending(100)
      one.ended(100)
    }
    assertEquals((clients.unsent.totalBytes, clients.givenUp.toSeq), (0L, Seq.empty[String]))
  }

  test("above it the one that took nothing for longest goes, and its bytes with it") {
    val clients = new Clients(100)
    val slow = clients.join("slow")
    val reading = clients.join("reading")
    val idle = clients.join("idle")
    idle.sending(10)
    idle.ended(10)
    reading.sending(40)
    slow.sending(20)
    slow.sending(30)
    reading.ended(20)
    idle.sending(31)
    assertEquals(clients.givenUp.toSeq, Seq("slow"))
    assertEquals(clients.unsent.totalBytes, 51L)
    slow.ended(50)
    slow.sending(1000)
    assertEquals(clients.unsent.totalBytes, 51L, "it counts no more, whatever becomes of it")
    assertEquals(clients.givenUp.toSeq, Seq("slow"))
  }

  test("who waits for a small answer does not pay for those that wait for large ones") {
    val clients = new Clients(100)
    clients.join("small").sending(1)
    clients.join("large").sending(60)
    clients.join("larger").sending(70)
    assertEquals(clients.givenUp.toSeq, Seq("large"))
  }

  test("who comes anew does not pay for those that do not read, although its answer is larger") {
    val clients = new Clients(100)
    (1 to 9).foreach(number => clients.join(s"idle $number").sending(10))
    clients.join("reading").sending(20)
    assertEquals(clients.givenUp.toSeq, Seq("idle 1"))
  }

  test("one answer that is too much alone takes its own connection") {
    val clients = new Clients(100)
    clients.join("only").sending(101)
    assertEquals((clients.unsent.totalBytes, clients.givenUp.toSeq), (0L, Seq("only")))
  }
}
