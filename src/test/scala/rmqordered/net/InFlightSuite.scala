package rmqordered.net

import rmqordered.protocol.{Body, FrameCodec, RemotingCommand, SerializeType, Slice}

class InFlightSuite extends munit.FunSuite {

  private def request(body: Body, remark: Option[String] = None): RemotingCommand =
    RemotingCommand(10, "JAVA", 479, 1, 0, remark, None, body)

  test("a request costs the whole frame that its body keeps, and its remark") {
    val alone = InFlight.cost(request(Body(new Array[Byte](100))))
    val part = InFlight.cost(request(Body(new Slice(new Array[Byte](5000), 4900, 100))))
    assertEquals(part - alone, 4900L)
    assertEquals(
      InFlight.cost(request(Body.empty, Some("r" * 70))) - InFlight.cost(request(Body.empty)),
      70L
    )
  }

  test("a header that means nothing counts as long as its frame is kept") {
    val frame =
      FrameCodec.encode(request(Body(Array[Byte](1)), Some(" " * 10000)), SerializeType.Json)
    assert(InFlight.cost(FrameCodec.decode(frame.drop(4))) > 20000L)
  }

  test("a frame without a body is not kept") {
    assertEquals(Body(new Slice(new Array[Byte](5000), 5000, 0)).heldBytes, 0)
  }
}
