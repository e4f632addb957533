package rmqordered

import java.io.IOException
import java.nio.file.{Files, Path}
import java.util.concurrent.CountDownLatch

import scala.annotation.tailrec

import rmqordered.config.{BrokerConfig, ConfigError, Settings}
import rmqordered.store.{DataDirectory, LogRepair, StoreError}

/**
 * The broker as a process.
 *
 * Standard output carries one line, `ready HOST:PORT`, once the broker serves; everything else goes
 * to standard error. Exit codes: 0 after a clean stop, 1 when the broker cannot run, 2 when it was
 * called wrongly.
 */
object Main {
  private val usage =
    "Usage: rmqordered.Main [--listen HOST:PORT] [--data DIR] [--config FILE] [--repair] " +
      "[--exit-with-stdin]"

  private final case class Arguments(
      listen: Option[String] = None,
      data: Option[String] = None,
      config: Option[String] = None,
      repair: Boolean = false,
      exitWithStdin: Boolean = false
  )

  def main(args: Array[String]): Unit =
    try {
      val arguments = parse(args.toList, Arguments())
      val config = configuration(arguments)
      if (arguments.repair) repair(config)
      run(EmbeddedBroker.start(config), arguments)
    } catch {
      case error: ConfigError => fail(2, s"${error.getMessage}")
      case error: StoreError => fail(1, error.getMessage)
      case error: IOException => fail(1, error.getMessage)
    }

  private def run(broker: EmbeddedBroker, arguments: Arguments): Unit = {
    val stop = new CountDownLatch(1)
    // After SIGTERM the JVM runs its hooks and then exits with 143 whatever they do. A clean stop
    // is
    // a success, so the last hook action is to halt with 0, once everything is flushed and closed.
    Runtime.getRuntime.addShutdownHook(new Thread(() => {
      broker.close()
      System.out.flush()
      Runtime.getRuntime.halt(0)
    }))
    println(s"ready ${broker.nameServer()}")
    System.out.flush()
    if (arguments.exitWithStdin) stopAtEndOfStdin(stop)
    stop.await()
    System.exit(0)
  }

  private def repair(config: BrokerConfig): Unit = {
    val directory = DataDirectory.open(Path.of(config(Settings.storePathRootDir)))
    try {
      val lost = new LogRepair(directory, config(Settings.mappedFileSizeCommitLog)).run()
      System.err.println(
        if (lost.isEmpty) s"Nothing is damaged in the commit log of ${directory.path}."
        else
          s"Given up in the commit log of ${directory.path}: " +
            lost.map(range => s"bytes ${range.from} to ${range.to}").mkString(", ") +
            s"; they are kept in ${directory.path.resolve("damaged")}."
      )
    } finally directory.close()
  }

  /** A parent that was killed cannot stop its broker, but its end of the pipe closes. */
  private def stopAtEndOfStdin(stop: CountDownLatch): Unit = {
    val reader = new Thread(
      () => {
        try while (System.in.read() >= 0) {}
        catch { case _: IOException => () }
        stop.countDown()
      },
      "rmq-ordered-stdin"
    )
    reader.setDaemon(true)
    reader.start()
  }

  @tailrec
  private def parse(args: List[String], parsed: Arguments): Arguments = args match {
    case Nil => parsed
    case "--listen" :: value :: rest => parse(rest, parsed.copy(listen = Some(value)))
    case "--data" :: value :: rest => parse(rest, parsed.copy(data = Some(value)))
    case "--config" :: value :: rest => parse(rest, parsed.copy(config = Some(value)))
    case "--repair" :: rest => parse(rest, parsed.copy(repair = true))
    case "--exit-with-stdin" :: rest => parse(rest, parsed.copy(exitWithStdin = true))
    case flag :: _ => throw new ConfigError(s"Unknown or incomplete argument '$flag'. $usage")
  }

  private def configuration(arguments: Arguments): BrokerConfig = {
    val fromFile = arguments.config.fold(Map.empty[String, String])(readConfig)
    val fromFlags =
      arguments.listen.map(EmbeddedBroker.parseListen).fold(Map.empty[String, String]) {
        case (host, port) => Map(Settings.listenHost.name -> host, Settings.listenPort.name -> port)
      } ++ arguments.data.map(Settings.storePathRootDir.name -> _)
    BrokerConfig.of(fromFile ++ fromFlags)
  }

  private def readConfig(file: String): Map[String, String] =
    try BrokerConfig.parseProperties(Files.readString(Path.of(file)))
    catch {
      case error: IOException =>
        throw new ConfigError(s"The configuration file $file cannot be read: $error.")
    }

  private def fail(code: Int, sentence: String): Unit = {
    System.err.println(sentence)
    System.exit(code)
  }
}
