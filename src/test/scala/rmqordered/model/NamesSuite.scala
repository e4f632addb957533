package rmqordered.model

class NamesSuite extends munit.FunSuite {

  test("RocketMQ's characters are legal") {
    assertEquals(Names.topicProblem("aZ09_-%|"), None)
    assertEquals(Names.groupProblem("group-1"), None)
  }

  test("a name that could leave the data directory is illegal") {
    Seq("..", "../x", "a/b", "a\\b", "a.b", "", " ", "a\u0000b", "größe").foreach { name =>
      assert(Names.topicProblem(name).isDefined, s"'$name' was accepted")
    }
  }

  test("topics may have 127 characters, retry and dead letter topics 255, groups 120") {
    assertEquals(Names.topicProblem("t" * 127), None)
    assert(Names.topicProblem("t" * 128).isDefined)
    assertEquals(Names.topicProblem(Names.retryTopic("g" * 120)), None)
    assert(Names.topicProblem(Names.DlqPrefix + "g" * 251).isDefined)
    assertEquals(Names.groupProblem("g" * 120), None)
    assert(Names.groupProblem("g" * 121).isDefined)
  }

  test("a retry topic knows its group") {
    assertEquals(Names.groupOfRetryTopic("%RETRY%g"), Some("g"))
    assertEquals(Names.groupOfRetryTopic("g"), None)
  }

  test("system topics are known") {
    assert(Names.isSystemTopic("TBW102"))
    assert(Names.isSystemTopic("rmq_sys_anything"))
    assert(!Names.isSystemTopic("orders"))
    assert(Names.isSendForbidden("SCHEDULE_TOPIC_XXXX"))
  }
}
