package rmqordered

import java.io.{BufferedReader, InputStreamReader}
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import rmqordered.Proves._

import rmqordered.handler.TestClient
import rmqordered.protocol.RequestCode
import rmqordered.store.StoreFixture

/** The broker as a process: its one line, its exit codes, its ends. */
class MainSuite extends munit.FunSuite {
  private val java = Path.of(System.getProperty("java.home"), "bin", "java").toString

  private final class Broker(arguments: String*) {
    private val command = Seq(
      java,
      "-XX:TieredStopAtLevel=1",
      "-cp",
      System.getProperty("java.class.path"),
      "-Dlog4j2.configurationFile=rmqordered/log4j2.properties",
      "rmqordered.Main"
    ) ++ arguments
    private val errors = StoreFixture.temporaryFile()
    val process: Process =
      new ProcessBuilder(command: _*).redirectError(errors.toFile).start()
    private val out = new BufferedReader(new InputStreamReader(process.getInputStream))

    lazy val address: String = out.readLine() match {
      case s"ready $address" => address
      case other => throw new AssertionError(s"not ready: $other; $stderr")
    }

    def restOfStdout: String =
      Iterator.continually(out.readLine()).takeWhile(_ != null).mkString("\n")

    /** SIGTERM. Process.destroy would close the streams as well. */
    def terminate(): Unit = {
      val _ = process.toHandle.destroy()
    }

    def stderr: String = Files.readString(errors)

    def exitCode: Int = {
      if (!process.waitFor(20, TimeUnit.SECONDS)) {
        process.destroyForcibly()
        throw new AssertionError(s"the broker did not stop; $stderr")
      }
      process.exitValue()
    }
  }

  private def data(): String = StoreFixture.temporaryFolder().toString

  test("--repair looks for damage first, and the broker serves then") {
    val broker = new Broker("--listen", "127.0.0.1:0", "--data", data(), "--repair")
    new SocketClient(broker.address).close()
    broker.terminate()
    assertEquals(broker.exitCode, 0)
    assert(broker.stderr.contains("Nothing is damaged"), broker.stderr)
  }

  test("a broker says it is ready, serves, and exits with 0 after SIGTERM") {
    val broker = new Broker("--listen", "127.0.0.1:0", "--data", data())
    val client = new SocketClient(broker.address)
    assertEquals(client.call(RequestCode.GetBrokerClusterInfo).code, 0)
    client.close()
    broker.terminate()
    assertEquals(broker.exitCode, 0)
    assertEquals(broker.restOfStdout, "")
    assert(broker.stderr.contains("stopped address="), broker.stderr)
  }

  test("with --exit-with-stdin the end of standard input is a clean stop") {
    val broker = new Broker("--listen", "127.0.0.1:0", "--data", data(), "--exit-with-stdin")
    assert(broker.address.nonEmpty)
    broker.process.getOutputStream.close()
    assertEquals(broker.exitCode, 0)
  }

  test("everything acknowledged survives kill -9") {
    val folder = data()
    val first = new Broker("--listen", "127.0.0.1:0", "--data", folder)
    val client = new SocketClient(first.address)
    (0 until 50).foreach { i =>
      client.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), s"m$i".getBytes)
    }
    first.process.destroyForcibly().waitFor(20, TimeUnit.SECONDS)
    client.close()
    val second = new Broker("--listen", "127.0.0.1:0", "--data", folder)
    val again = new SocketClient(second.address)
    val fields = TestClient.pullFields("t", 0, 0, "maxMsgNums" -> "100", "maxMsgBytes" -> "1000000")
    assertEquals(
      TestClient.bodies(again.call(RequestCode.PullMessage, fields)),
      (0 until 50).map(i => s"m$i")
    )
    again.close()
    second.terminate()
    assertEquals(second.exitCode, 0)
  }

  test("flags override the configuration file") {
    val folder = data()
    val config = StoreFixture.temporaryFile()
    Files.writeString(config, s"listenPort=1\nbrokerName=from-file\nstorePathRootDir=/nowhere\n")
    val broker =
      new Broker("--config", config.toString, "--listen", "127.0.0.1:0", "--data", folder)
    val client = new SocketClient(broker.address)
    val cluster = TestClient.json(client.call(RequestCode.GetBrokerClusterInfo))
    assert(cluster.get("brokerAddrTable").has("from-file"))
    client.close()
    broker.terminate()
    assertEquals(broker.exitCode, 0)
  }

  test("a wrong call is one sentence on standard error and exit code 2") {
    val config = StoreFixture.temporaryFile()
    Files.writeString(config, "brokerNme=x\n")
    val calls = Seq(
      Seq("--port", "1") -> "Unknown or incomplete argument '--port'.",
      Seq("--listen") -> "Unknown or incomplete argument '--listen'.",
      Seq("--config", "/does/not/exist") -> "The configuration file /does/not/exist cannot be read",
      Seq("--config", config.toString) -> "Unknown setting 'brokerNme'. Did you mean brokerName?"
    )
    calls.foreach { case (arguments, sentence) =>
      val broker = new Broker(arguments: _*)
      assertEquals(broker.exitCode, 2)
      assert(broker.stderr.startsWith(sentence), broker.stderr)
      assertEquals(broker.stderr.linesIterator.length, 1, broker.stderr)
    }
  }

  test("a port or data directory in use is one sentence and exit code 1") {
    val folder = data()
    val first = new Broker("--listen", "127.0.0.1:0", "--data", folder)
    val samePort = new Broker("--listen", first.address, "--data", data())
    assertEquals(samePort.exitCode, 1)
    assert(samePort.stderr.contains("cannot be listened on"), samePort.stderr)
    val sameData = new Broker("--listen", "127.0.0.1:0", "--data", folder)
    assertEquals(sameData.exitCode, 1)
    assertEquals(sameData.stderr.trim, s"The data directory $folder is in use by another broker.")
    first.terminate()
    assertEquals(first.exitCode, 0)
  }

  private def rights(path: Path): String =
    PosixFilePermissions.toString(Files.getPosixFilePermissions(path))

  test("what the broker keeps only its own account can open".proves("files-closed")) {
    val root = StoreFixture.temporaryFolder().resolve("data")
    val old = Files.createDirectories(StoreFixture.temporaryFolder().resolve("config"))
    Files.setPosixFilePermissions(old, PosixFilePermissions.fromString("rwxr-xr-x"))
    Seq(root, old.getParent).foreach { folder =>
      val broker = new Broker("--listen", "127.0.0.1:0", "--data", folder.toString)
      val client = new SocketClient(broker.address)
      client.call(RequestCode.SendMessageV2, TestClient.sendFields("t", 0), "m".getBytes)
      client.close()
      broker.terminate()
      assertEquals(broker.exitCode, 0)
    }
    val paths = Files.walk(root).iterator().asScala.toVector
    assert(paths.length > 10, s"$paths")
    val open = paths.filter { path =>
      rights(path) != (if (Files.isDirectory(path)) "rwx------" else "rw-------")
    }
    assertEquals(open, Vector.empty[Path])
    assertEquals(rights(old), "rwx------")
  }

  test("files with secrets that others may read are named".proves("files-closed")) {
    val acl = StoreFixture.temporaryFile()
    Files.writeString(acl, "user.app.secret=12345678\n")
    Files.setPosixFilePermissions(acl, PosixFilePermissions.fromString("rw-r--r--"))
    val config = StoreFixture.temporaryFile()
    Files.writeString(config, s"aclFile=$acl\n")
    val arguments = Seq("--listen", "127.0.0.1:0", "--config", config.toString)
    def stderr(): String = {
      val broker = new Broker(arguments ++ Seq("--data", data()): _*)
      assert(broker.address.nonEmpty)
      broker.terminate()
      assertEquals(broker.exitCode, 0)
      broker.stderr
    }
    assert(stderr().contains(s"Setting aclFile names $acl, which holds secrets"))
    Files.setPosixFilePermissions(acl, PosixFilePermissions.fromString("rw-------"))
    assert(!stderr().contains("holds secrets"))
  }

  test("nothing that a client says steers the terminal that shows the log".proves("log-is-text")) {
    val acl = StoreFixture.temporaryFile()
    Files.writeString(acl, "user.app.secret=12345678\n")
    val config = StoreFixture.temporaryFile()
    Files.writeString(config, s"aclFile=$acl\n")
    val broker =
      new Broker("--listen", "127.0.0.1:0", "--config", config.toString, "--data", data())
    val client = new SocketClient(broker.address)
    val evil = "\u001b]0;owned\u0007\n2026-01-01 INFO forged \u009b31m"
    val fields = Map("AccessKey" -> evil, "topic" -> evil, "Signature" -> evil)
    assertEquals(client.call(RequestCode.GetRouteInfoByTopic, fields).code, 16)
    client.close()
    broker.terminate()
    assertEquals(broker.exitCode, 0)
    assert(broker.stderr.contains("owned"), broker.stderr)
    val steering = broker.stderr.filter(char => Character.isISOControl(char) && char != '\n')
    assertEquals(steering, "")
    assert(!broker.stderr.linesIterator.exists(_.startsWith("2026-01-01 INFO forged")))
  }
}
