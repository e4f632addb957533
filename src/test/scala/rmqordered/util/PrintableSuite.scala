package rmqordered.util

class PrintableSuite extends munit.FunSuite {

  test("control characters are written out, other text stays") {
    assertEquals(Printable("user 'größe' \u8ba2\u5355"), "user 'größe' \u8ba2\u5355")
    assertEquals(
      Printable("a\u001b[31mb\nc\rd\te\u007f\u009b"),
      "a\\x1b[31mb\\x0ac\\x0dd\\x09e\\x7f\\x9b"
    )
    assertEquals(Printable("\u202eabc\u2028"), "\\x202eabc\\x2028")
  }

  test("a text has an end") {
    assertEquals(Printable("x" * 5000).length, 2051)
  }
}
