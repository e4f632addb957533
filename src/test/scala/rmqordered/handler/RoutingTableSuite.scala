package rmqordered.handler

import java.nio.file.{Files, Path}

import rmqordered.protocol.RequestCode

/** The table is made of literal maps, in which a code listed twice would be lost silently. */
class RoutingTableSuite extends munit.FunSuite {

  private def repeated[T](all: Seq[T]): Seq[T] = all.diff(all.distinct).distinct

  test("every code is routed once") {
    val text = Files.readString(Path.of("src/main/scala/rmqordered/handler/RoutingTable.scala"))
    val routed = """Code\.(\w+)(?: ->|, )""".r.findAllMatchIn(text).map(_.group(1)).toSeq
    assert(routed.length > 40, s"found ${routed.length} routes")
    assertEquals(repeated(routed), Nil)
  }

  test("no two names stand for one code") {
    val codes = RequestCode.getClass.getDeclaredMethods.toSeq
      .filter(method => method.getParameterCount == 0 && method.getReturnType == classOf[Int])
      .map(method => method.invoke(RequestCode).asInstanceOf[Int])
    assert(codes.length > 40, s"found ${codes.length} codes")
    assertEquals(repeated(codes), Nil)
  }
}
