package rmqordered.util

class NearestSuite extends munit.FunSuite {
  private val names = Seq("brokerName", "brokerIP1", "listenPort")

  test("a misspelt name finds its neighbour") {
    assertEquals(Nearest.to("brokrName", names), Some("brokerName"))
    assertEquals(Nearest.to("LISTENPORT", names), Some("listenPort"))
  }

  test("a name like no other finds nothing") {
    assertEquals(Nearest.to("zzzzzzzzzz", names), None)
  }
}
