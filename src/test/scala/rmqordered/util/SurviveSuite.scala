package rmqordered.util

import org.slf4j.LoggerFactory

class SurviveSuite extends munit.FunSuite {
  private val logger = LoggerFactory.getLogger(classOf[SurviveSuite])

  test("what comes next is done, whatever was thrown") {
    var done = 0
    val failures =
      Seq(new Exception("x"), new StackOverflowError("x"), new NoClassDefFoundError("x"))
    failures.foreach { failure =>
      Survive(logger, "a test")(throw failure)
      Survive(logger, "a test")(done += 1)
    }
    assertEquals(done, failures.length)
  }
}
