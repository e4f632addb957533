package rmqordered.util

import java.io.IOException

class JsonSuite extends munit.FunSuite {

  test("objects are written with their keys in alphabetical order") {
    val node = Json.obj().put("b", 1).put("a", "x")
    node.putObject("c").put("z", true).put("y", 2L)
    assertEquals(Json.text(node), """{"a":"x","b":1,"c":{"y":2,"z":true}}""")
  }

  test("bare keys are read, as Java's name server writes them") {
    assertEquals(Json.parseObject("{0:\"x\"}".getBytes).path("0").asText(), "x")
  }

  test("a document that is not an object is refused") {
    val problem = intercept[IOException](Json.parseObject("[1]".getBytes)).getMessage
    assertEquals(problem, "expected a JSON object, found ARRAY")
    intercept[IOException](Json.parseObject(Array.emptyByteArray))
    intercept[IOException](Json.parseObject("{\"a\":".getBytes))
  }

  test("a damaged file is named in the error") {
    val problem = intercept[IOException](Json.read(new MemoryFile(Some("{oops")))).getMessage
    assert(problem.startsWith("The file memory is damaged: "), problem)
    assertEquals(Json.read(new MemoryFile()), None)
  }
}
