package rmqordered

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

/** The layers, read from the import lines: the tree is the architecture. */
class ArchitectureSuite extends munit.FunSuite {
  private val root = Path.of("src/main/scala/rmqordered")

  private val mayImport: Map[String, Set[String]] = Map(
    "util" -> Set(),
    "model" -> Set("util"),
    "config" -> Set("util"),
    "protocol" -> Set("model"),
    "dedup" -> Set("model", "protocol", "util"),
    "auth" -> Set("model", "protocol", "config"),
    "store" -> Set("model", "protocol", "config", "util", "dedup"),
    "filter" -> Set("model"),
    "stats" -> Set("model", "util"),
    "schedule" -> Set("model", "protocol", "store", "util"),
    "lease" -> Set("model", "util"),
    "offset" -> Set("model", "config", "util"),
    "group" -> Set("model", "config", "util"),
    "handler" -> Set(
      "util",
      "model",
      "config",
      "protocol",
      "dedup",
      "auth",
      "store",
      "filter",
      "stats",
      "schedule",
      "lease",
      "offset",
      "group"
    ),
    "net" -> Set("protocol", "handler", "config", "util")
  )

  private val onlyIn: Map[String, Set[String]] = Map(
    "io.netty" -> Set("net"),
    "java.nio.channels" -> Set("store"),
    "System.currentTimeMillis" -> Set("util"),
    "System.nanoTime" -> Set("util"),
    "System.getenv" -> Set(),
    "System.getProperty" -> Set()
  )

  private lazy val sources: Vector[(String, Path, String)] = {
    val files = Files.walk(root)
    try
      files.iterator().asScala.filter(_.toString.endsWith(".scala")).map { file =>
        val relative = root.relativize(file)
        val layer = if (relative.getNameCount > 1) relative.getName(0).toString else ""
        (layer, file, Files.readString(file))
      }.toVector
    finally files.close()
  }

  test("every file has one package clause that names its folder") {
    sources.foreach { case (layer, file, text) =>
      val expected = if (layer.isEmpty) "package rmqordered" else s"package rmqordered.$layer"
      val clauses = text.linesIterator.filter(_.startsWith("package ")).toSeq
      assertEquals(clauses, Seq(expected), file.toString)
    }
  }

  test("imports point down the layers only") {
    val pattern = """rmqordered\.([a-z]+)\.""".r
    for {
      (layer, file, text) <- sources if layer.nonEmpty
      line <- text.linesIterator if !line.startsWith("package ")
      found <- pattern.findAllMatchIn(line).map(_.group(1)) if found != layer
    } assert(mayImport(layer).contains(found), s"$file: $layer must not import $found")
  }

  test("Netty, channels, clocks and the environment are used where they belong and nowhere else") {
    for {
      (layer, file, text) <- sources
      (name, layers) <- onlyIn if text.contains(name)
    } assert(layers.contains(layer), s"$file uses $name")
  }

  test("no file is longer than 350 lines, no line longer than 100 characters") {
    sources.foreach { case (_, file, text) =>
      val lines = text.linesIterator.toVector
      assert(lines.length <= 350, s"$file has ${lines.length} lines")
      assert(lines.forall(_.length <= 100), s"$file has a line that is too long")
    }
  }
}
