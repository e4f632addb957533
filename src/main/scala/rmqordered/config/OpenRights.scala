package rmqordered.config

import java.io.IOException
import java.nio.file.attribute.PosixFilePermission._
import java.nio.file.{Files, InvalidPathException, Path}

import scala.jdk.CollectionConverters._

/** Files with secrets that others of this machine may read or change. */
object OpenRights {
  private val open = Set(GROUP_WRITE, OTHERS_READ, OTHERS_WRITE, OTHERS_EXECUTE)

  /** A sentence for each file of the configuration whose rights are too wide. */
  def warnings(config: BrokerConfig): Seq[String] =
    Seq(Settings.aclFile, Settings.tlsKeyPath).flatMap(setting => warning(setting, config(setting)))

  private def warning(setting: Setting[String], file: String): Option[String] =
    Option.when(file.nonEmpty && isOpen(file))(
      s"Setting ${setting.name} names $file, which holds secrets and which others of this machine " +
        s"may read or change: chmod 600 $file."
    )

  private def isOpen(file: String): Boolean =
    try Files.getPosixFilePermissions(Path.of(file)).asScala.exists(open)
    catch {
      // Whoever needs the file says what is wrong with it; not every file system has rights.
      case _: IOException | _: UnsupportedOperationException | _: InvalidPathException => false
    }
}
