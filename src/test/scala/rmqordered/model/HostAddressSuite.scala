package rmqordered.model

import java.net.InetSocketAddress

class HostAddressSuite extends munit.FunSuite {

  test("an address knows its size in a record and its text") {
    val v4 = HostAddress.of(new InetSocketAddress("10.0.0.1", 5555))
    val v6 = HostAddress.of(new InetSocketAddress("2001:db8::1", 5555))
    assertEquals((v4.encodedLength, v4.toString), (8, "10.0.0.1:5555"))
    assertEquals((v6.encodedLength, v6.toString), (20, "[2001:db8:0:0:0:0:0:1]:5555"))
  }

  test("addresses are equal by bytes and port") {
    val one = new HostAddress(Array[Byte](1, 2, 3, 4), 1)
    assertEquals(one, new HostAddress(Array[Byte](1, 2, 3, 4), 1))
    assertEquals(one.hashCode, new HostAddress(Array[Byte](1, 2, 3, 4), 1).hashCode)
    assertNotEquals(one, new HostAddress(Array[Byte](1, 2, 3, 4), 2))
  }
}
