package rmqordered.group

import java.io.IOException
import java.util.concurrent.CountDownLatch

import rmqordered.model.SubscriptionGroupConfig
import rmqordered.util.{MemoryFile, SmallFile}

class SubscriptionGroupsSuite extends munit.FunSuite {

  test("groups that are created by being named are there at once and written behind, together") {
    val file = new MemoryFile()
    val groups = new SubscriptionGroups(file, autoCreate = true)
    (0 until 100).foreach(i => assert(groups.getOrCreate(s"g$i").isDefined))
    assertEquals((groups.all.length, file.replacements), (100, 0))
    (0 until 3).foreach(_ => groups.flush())
    assertEquals(file.replacements, 1)
    assertEquals(new SubscriptionGroups(file, autoCreate = true).all, groups.all)
  }

  test("a group that may not be created by being named is not") {
    val groups = new SubscriptionGroups(new MemoryFile(), autoCreate = false)
    assertEquals(groups.getOrCreate("g"), None)
    groups.put(SubscriptionGroupConfig("g"))
    assert(groups.getOrCreate("g").isDefined)
  }

  test("what an administrator sets is on disk before it is visible, many groups in one write") {
    val file = new MemoryFile()
    val groups = new SubscriptionGroups(file, autoCreate = true)
    groups.getOrCreate("named")
    groups.put((0 until 100).map(i => SubscriptionGroupConfig(s"g$i", retryMaxTimes = 3)): _*)
    assertEquals(file.replacements, 1)
    file.isBroken = true
    intercept[IOException](groups.put(SubscriptionGroupConfig("h")))
    intercept[IOException](groups.delete("g1"))
    assertEquals((groups.get("h"), groups.get("g1").map(_.retryMaxTimes)), (None, Some(3)))
    assertEquals(new SubscriptionGroups(file, autoCreate = true).all, groups.all)
  }

  test("groups that could not be written are written later, and serve meanwhile") {
    val file = new MemoryFile()
    val groups = new SubscriptionGroups(file, autoCreate = true)
    file.isBroken = true
    groups.getOrCreate("g")
    groups.flush()
    assert(groups.get("g").isDefined)
    file.isBroken = false
    groups.flush()
    assert(new SubscriptionGroups(file, autoCreate = false).get("g").isDefined)
  }

  test("a creation waits for no write, and one during a write is in the next one") {
    val (writing, go) = (new CountDownLatch(1), new CountDownLatch(1))
    val memory = new MemoryFile()
    val slow = new SmallFile {
      override def name: String = "slow"
      override def read(): Option[Array[Byte]] = memory.read()
      override def replace(content: Array[Byte]): Unit = {
        writing.countDown()
        go.await()
        memory.replace(content)
      }
    }
    val groups = new SubscriptionGroups(slow, autoCreate = true)
    groups.getOrCreate("before")
    val writer = new Thread(() => groups.flush())
    writer.start()
    writing.await()
    assert(groups.getOrCreate("during").isDefined)
    go.countDown()
    writer.join()
    assertEquals(memory.text.contains("during"), false)
    groups.flush()
    assert(memory.text.contains("before") && memory.text.contains("during"))
  }
}
