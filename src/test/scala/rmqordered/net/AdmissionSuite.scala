package rmqordered.net

import java.net.InetAddress

import rmqordered.Proves._

class AdmissionSuite extends munit.FunSuite {
  private val near = InetAddress.getByName("127.0.0.1")
  private val far = InetAddress.getByName("192.0.2.1")
  private val other = InetAddress.getByName("192.0.2.2")

  private def isRefused(admission: Admission, address: InetAddress): Boolean =
    admission.enter(address).isLeft

  test("one address has half of the connections, and room again when it leaves".proves(
    "connections-bounded"
  )) {
    val admission = Admission.of(10, perAddress = 0)
    val mine = Seq.fill(5)(admission.enter(far)).flatMap(_.toOption)
    assertEquals(mine.length, 5)
    val problem = admission.enter(far).left.getOrElse("")
    assert(problem.contains("maxConnectionsPerAddress"), problem)
    assert(!isRefused(admission, other), "others have room")
    mine.head.left()
    mine.head.left()
    assert(!isRefused(admission, far))
    assert(isRefused(admission, far), "one has left, be it told of twice")
  }

  test("this machine has all of them, and nobody has more") {
    val admission = Admission.of(10, perAddress = 2)
    (1 to 10).foreach(_ => assert(!isRefused(admission, near)))
    val problem = admission.enter(far).left.getOrElse("")
    assert(problem.contains("maxConnections "), problem)
    assertEquals(admission.openConnections, 10)
  }

  test("who is let in and not set up yet is counted until it is, or has left".proves(
    "connections-bounded"
  )) {
    val admission = new Admission(100, 100, maxArriving = 3)
    val entries = Seq.fill(3)(admission.enter(far)).flatMap(_.toOption)
    assert(admission.isCrowded)
    assert(entries(0).arrived(), "there is room again")
    assert(!admission.isCrowded)
    assert(!entries(0).arrived(), "nothing new")
    assert(entries(1).left())
    entries(2).arrived()
    entries(2).left()
    assertEquals((admission.openConnections, admission.isCrowded), (1, false))
  }
}
