package rmqordered.store

import java.io.IOException
import java.nio.file.Files

import rmqordered.model.TopicConfig
import rmqordered.util.MemoryFile

/** Topics, key-value pairs, and the files and folder under them. */
class TablesSuite extends munit.FunSuite {

  test("topics survive a restart with all their settings") {
    val file = new MemoryFile()
    val topic = TopicConfig("t", 4, 8, 6, "MULTI_TAG", 2, order = true, Map("k" -> "v"))
    new TopicTable(file, Nil).put(topic)
    assertEquals(new TopicTable(file, Nil).get("t"), Some(topic))
  }

  test("system topics are served but not written") {
    val file = new MemoryFile()
    val table = new TopicTable(file, Seq(TopicConfig("TBW102", 8, 8, 7)))
    assert(table.contains("TBW102") && table.isSystem("TBW102"))
    table.put(TopicConfig("t", 1, 1))
    assert(!file.text.contains("TBW102"))
    assertEquals(table.all.map(_.name), Seq("TBW102", "t"))
  }

  test("a topic that cannot be written does not exist") {
    val file = new MemoryFile()
    val table = new TopicTable(file, Nil)
    file.isBroken = true
    intercept[IOException](table.put(TopicConfig("t", 1, 1)))
    assert(!table.contains("t"))
  }

  test("the first of two creations wins") {
    val table = new TopicTable(new MemoryFile(), Nil)
    table.putIfAbsent(TopicConfig("t", 1, 1))
    assertEquals(table.putIfAbsent(TopicConfig("t", 9, 9)).readQueueNums, 1)
  }

  test("key-value pairs survive a restart, and an emptied namespace is gone") {
    val file = new MemoryFile()
    val table = new KvTable(file)
    table.put("n", "k", "v")
    table.put("n", "l", "w")
    val again = new KvTable(file)
    assertEquals(again.list("n"), Some(Map("k" -> "v", "l" -> "w")))
    again.delete("n", "k")
    again.delete("n", "l")
    again.delete("n", "never there")
    assertEquals(new KvTable(file).list("n"), None)
    assertEquals(again.get("n", "k"), None)
  }

  test("an atomic file is replaced whole and leaves no temporary file") {
    val folder = StoreFixture.temporaryFolder()
    val file = new AtomicFile(folder.resolve("x.json"))
    assertEquals(file.read(), None)
    file.replace("one".getBytes)
    file.replace("two".getBytes)
    assertEquals(file.read().map(new String(_)), Some("two"))
    assertEquals(folder.toFile.list().toSeq, Seq("x.json"))
  }

  test("an interrupted replacement leaves the old content") {
    val folder = StoreFixture.temporaryFolder()
    val file = new AtomicFile(folder.resolve("x.json"))
    file.replace("one".getBytes)
    // The temporary name is taken by a folder, so the new content cannot be written.
    Files.createDirectory(folder.resolve("x.json.tmp"))
    intercept[IOException](file.replace("two".getBytes))
    assertEquals(file.read().map(new String(_)), Some("one"))
  }

  test("a data directory belongs to one broker at a time") {
    val folder = StoreFixture.temporaryFolder()
    val first = DataDirectory.open(folder)
    assert(
      intercept[StoreError](DataDirectory.open(folder)).getMessage.contains("in use by another")
    )
    first.close()
    DataDirectory.open(folder).close()
  }

  test("a data directory that is a file is refused with its name") {
    val file = Files.createTempFile("rmq-ordered-test", "x")
    assert(intercept[StoreError](DataDirectory.open(file)).getMessage.contains(file.toString))
  }
}
