package rmqordered.store

import java.io.IOException
import java.nio.file.Files

import rmqordered.model.TopicConfig
import rmqordered.util.{Json, MemoryFile}

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
    assertEquals(folder.toFile.list().toSet, Set("x.json", "x.json.bak"))
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

  test(
    "a damaged or missing table comes back from its previous version, and the damaged one is kept"
  ) {
    val folder = StoreFixture.temporaryFolder()
    val path = folder.resolve("x.json")
    Seq("{\"a\":1}", "{\"a\":2}").foreach(text => new AtomicFile(path).replace(text.getBytes))
    Files.write(path, "{\"a\":".getBytes)
    assertEquals(Json.read(new AtomicFile(path)).map(_.get("a").asInt()), Some(1))
    assertEquals(Files.readString(path), "{\"a\":1}")
    assertEquals(Files.readString(folder.resolve("x.json.damaged")), "{\"a\":")
    // The good version is not lost by the next replacement, and again by none at all.
    new AtomicFile(path).replace("{\"a\":3}".getBytes)
    Files.delete(path)
    assertEquals(Json.read(new AtomicFile(path)).map(_.get("a").asInt()), Some(1))
  }

  test("a table damaged in both versions is refused with a sentence") {
    val folder = StoreFixture.temporaryFolder()
    Files.write(folder.resolve("x.json"), "nonsense".getBytes)
    Files.write(folder.resolve("x.json.bak"), Array.emptyByteArray)
    val problem =
      intercept[IOException](Json.read(new AtomicFile(folder.resolve("x.json")))).getMessage
    assert(problem.contains("x.json is damaged") && problem.contains("restore it"), problem)
  }

  test("a damaged lease table is never replaced by an older one: epochs would come twice") {
    val folder = StoreFixture.temporaryFolder()
    val file = new AtomicFile(folder.resolve("x.json"))
    file.replace("{\"leases\":[]}".getBytes)
    file.replace("{\"leases\":[]}".getBytes)
    Files.write(folder.resolve("x.json"), "{".getBytes)
    intercept[IOException](new rmqordered.lease.LeaseFile(file).load())
  }

  test("temporary files left by a crash are removed and never read") {
    val folder = StoreFixture.temporaryFolder()
    Files.write(folder.resolve("x.json.tmp"), "half".getBytes)
    Files.write(folder.resolve("x.json.bak.tmp"), "half".getBytes)
    val file = new AtomicFile(folder.resolve("x.json"))
    assertEquals(file.read(), None)
    assertEquals(folder.toFile.list().toSeq, Nil)
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
    val file = StoreFixture.temporaryFile()
    assert(intercept[StoreError](DataDirectory.open(file)).getMessage.contains(file.toString))
  }
}
