package rmqordered.config

import java.nio.file.{Files, Path}

class BrokerConfigSuite extends munit.FunSuite {
  private lazy val shipped =
    BrokerConfig.parseProperties(Files.readString(Path.of("conf/broker.conf")))

  test("the shipped file names every setting and no other") {
    assertEquals(shipped.keySet, Settings.all.map(_.name).toSet)
  }

  test("the shipped file gives the defaults") {
    assertEquals(BrokerConfig.of(shipped), BrokerConfig.defaults)
  }

  test("every setting of the shipped file has its own doc as a comment above it") {
    val lines = Files.readAllLines(Path.of("conf/broker.conf"))
    Settings.all.foreach { setting =>
      val at = lines.indexOf(s"${setting.name}=${setting.default}")
      assert(at > 0, s"${setting.name} is not in the file with its default")
      assertEquals(lines.get(at - 1), s"# ${setting.doc}")
    }
  }

  test("the jar carries the same file") {
    val resource = getClass.getClassLoader.getResourceAsStream("rmqordered/broker.conf")
    assertEquals(
      new String(resource.readAllBytes(), "UTF-8"),
      Files.readString(Path.of("conf/broker.conf"))
    )
  }

  test("a setting is given by its name and read by its type") {
    val config = BrokerConfig.of(Map("listenPort" -> " 0 ", "flushDiskType" -> "ASYNC_FLUSH"))
    assertEquals(config(Settings.listenPort), 0)
    assertEquals(config(Settings.flushDiskType), FlushDiskType.Async)
    assertNotEquals(config, BrokerConfig.defaults)
  }

  test("losing acknowledged data is not a default") {
    assertEquals(BrokerConfig.defaults(Settings.flushDiskType), FlushDiskType.Sync)
  }

  test("an unknown setting is refused with the nearest name") {
    assertEquals(
      refusal("brokerNme" -> "x"),
      "Unknown setting 'brokerNme'. Did you mean brokerName?"
    )
    assertEquals(refusal("zzzzzzzzzz" -> "x"), "Unknown setting 'zzzzzzzzzz'.")
  }

  test("a value of the wrong kind is refused with what was expected") {
    assertEquals(
      refusal("listenPort" -> "70000"),
      "Setting listenPort expects a whole number from 0 to 65535, found '70000'."
    )
    assertEquals(
      refusal("autoCreateTopicEnable" -> "yes"),
      "Setting autoCreateTopicEnable expects true or false, found 'yes'."
    )
    assertEquals(
      refusal("flushDiskType" -> "NEVER"),
      "Setting flushDiskType expects SYNC_FLUSH or ASYNC_FLUSH, found 'NEVER'."
    )
    assert(refusal("brokerName" -> "../up").startsWith("Setting brokerName expects"))
  }

  test("settings that do not fit together are refused") {
    assert(refusal("mappedFileSizeCommitLog" -> "65536").contains("at least maxMessageSize"))
    assert(refusal("maxFrameBytes" -> "65536").contains("maxFrameBytes must leave room"))
    assert(refusal("mappedFileSizeConsumeQueue" -> "30").contains("multiple of 20"))
  }

  test("text that is not java-properties is refused") {
    intercept[ConfigError](BrokerConfig.parseProperties("a=\\u00zz"))
  }

  private def refusal(texts: (String, String)*): String =
    intercept[ConfigError](BrokerConfig.of(texts.toMap)).getMessage
}
