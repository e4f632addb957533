package rmqordered.util

import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

/** Waiting without sleeping, and files as a kill would leave them. */
object Eventually {
  private val DeadlineSeconds = 10L

  /** Asks again and again until the condition holds; fails after a deadline. */
  def apply(condition: => Boolean): Unit = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DeadlineSeconds)
    while (!condition) {
      if (System.nanoTime() > deadline)
        throw new AssertionError("a condition did not come true in time")
      Thread.`yield`()
    }
  }

  /** Copies a broker's files while it runs; its lock is not taken along. */
  def copyTree(from: Path, to: Path): Unit = {
    val paths = Files.walk(from)
    try
      paths.forEach { path =>
        val target = to.resolve(from.relativize(path).toString)
        if (Files.isDirectory(path)) { val _ = Files.createDirectories(target) }
        else if (path.getFileName.toString != "lock") { val _ = Files.copy(path, target) }
      }
    finally paths.close()
  }
}
