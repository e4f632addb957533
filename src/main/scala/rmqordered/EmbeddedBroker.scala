package rmqordered

import java.net.{InetAddress, InetSocketAddress, NetworkInterface}
import java.nio.file.Path
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{
  Executors,
  LinkedBlockingQueue,
  ScheduledExecutorService,
  ThreadFactory,
  ThreadPoolExecutor,
  TimeUnit
}

import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.config.{BrokerConfig, ConfigError, OpenRights, Settings}
import rmqordered.handler.BrokerIdentity
import rmqordered.model.HostAddress
import rmqordered.net.{BrokerServer, DirectMemory}
import rmqordered.store.DataDirectory
import rmqordered.util.{Survive, SystemClock}

/**
 * A running broker: a `BrokerCore` with a socket, threads and the system's clock.
 *
 * Made by `EmbeddedBroker.start`, from Scala, Java or (through py4j) Python. Closing it twice is
 * fine. The methods have empty parameter lists because py4j calls methods, not fields.
 */
final class EmbeddedBroker private (config: BrokerConfig) {
  import EmbeddedBroker._

  private val closed = new AtomicBoolean(false)
  private val directory = DataDirectory.open(Path.of(config(Settings.storePathRootDir)))
  private val server = closingOnFailure(directory.close())(new BrokerServer(config))
  private val bound = closingOnFailure(directory.close())(server.bind(listenAddress(config)))
  private val worker = newWorker("rmq-ordered-worker")
  private val leaseWorker = newWorker("rmq-ordered-leases")
  private val core = closingOnFailure { server.close(); directory.close() } {
    new BrokerCore(
      config,
      SystemClock,
      directory,
      identity,
      worker,
      leaseWorker,
      directMemory = () => DirectMemory.used
    )
  }
  private val timer = startTimer(core.periodicTasks)
  server.rehearse(core)
  server.accept(core)
  exposure(bound.getAddress, config).foreach(sentence =>
    logger.warn("{} address={}", sentence, nameServer())
  )
  OpenRights.warnings(config).foreach(sentence => logger.warn("{}", sentence))
  logger.info(
    "serving address={} broker={} data={}",
    nameServer(),
    identity.brokerName,
    directory.path
  )

  /** The address clients are told to use. */
  def host(): String = advertisedHost(config, bound)

  def port(): Int = bound.getPort

  /** What to give a client as its name server. */
  def nameServer(): String = identity.address

  /** Stops accepting, answers waiting polls, flushes, closes. */
  def close(): Unit =
    if (closed.compareAndSet(false, true)) {
      server.stopAccepting()
      core.releasePolls()
      timer.shutdown()
      val workers = Seq(worker, leaseWorker)
      workers.foreach(_.shutdown())
      workers.foreach(_.awaitTermination(WorkerStopMs, TimeUnit.MILLISECONDS))
      core.close()
      server.close()
      directory.close()
      logger.info("stopped address={}", nameServer())
    }

  private lazy val identity: BrokerIdentity = {
    val host = advertisedHost(config, bound)
    val address = new InetSocketAddress(host, bound.getPort)
    if (address.isUnresolved)
      throw new ConfigError(
        s"Setting brokerIP1 expects a host that can be resolved, found '$host'."
      )
    val shown = if (host.contains(':')) s"[$host]" else host
    BrokerIdentity(
      config(Settings.brokerName),
      config(Settings.brokerClusterName),
      s"$shown:${bound.getPort}",
      HostAddress.of(address)
    )
  }
}

object EmbeddedBroker {
  private val logger = LoggerFactory.getLogger(classOf[EmbeddedBroker])

  private val WorkerStopMs = 5000L

  /**
   * Starts a broker and returns when it serves.
   *
   * @param listen
   *   HOST:PORT; port 0 picks a free one
   * @param dataDir
   *   the data directory, created if need be
   * @param settings
   *   further settings by name, as in the configuration file
   */
  def start(
      listen: String,
      dataDir: String,
      settings: java.util.Map[String, String]
  ): EmbeddedBroker = {
    val (host, port) = parseListen(listen)
    val texts = settings.asScala.toMap ++ Map(
      Settings.listenHost.name -> host,
      Settings.listenPort.name -> port,
      Settings.storePathRootDir.name -> dataDir
    )
    start(BrokerConfig.of(texts))
  }

  def start(config: BrokerConfig): EmbeddedBroker = new EmbeddedBroker(config)

  /** Splits HOST:PORT; an IPv6 host stands in brackets. */
  def parseListen(listen: String): (String, String) = {
    val colon = listen.lastIndexOf(':')
    val port = listen.substring(colon + 1)
    if (colon <= 0 || port.isEmpty || !port.forall(_.isDigit))
      throw new ConfigError(s"An address is written HOST:PORT, found '$listen'.")
    (listen.substring(0, colon).stripPrefix("[").stripSuffix("]"), port)
  }

  /** What an operator should know about who can reach the broker. */
  def exposure(address: InetAddress, config: BrokerConfig): Option[String] =
    Option.when(!address.isLoopbackAddress && config(Settings.aclFile).isEmpty)(
      "other machines can reach this broker and everybody may do everything: set aclFile, or " +
        "listen on 127.0.0.1"
    )

  private def listenAddress(config: BrokerConfig): InetSocketAddress = {
    val host = config(Settings.listenHost)
    val address = new InetSocketAddress(host, config(Settings.listenPort))
    if (address.isUnresolved)
      throw new ConfigError(
        s"Setting listenHost expects an address of this machine, found '$host'."
      )
    address
  }

  private def advertisedHost(config: BrokerConfig, bound: InetSocketAddress): String = {
    val configured = config(Settings.brokerIP1)
    if (configured.nonEmpty) configured
    else if (!bound.getAddress.isAnyLocalAddress) bound.getAddress.getHostAddress
    else reachableAddress()
  }

  /** For a wildcard: the first address of this machine that others can reach, else loopback. */
  private def reachableAddress(): String = {
    val candidates = for {
      interface <- NetworkInterface.getNetworkInterfaces.asScala
      if interface.isUp && !interface.isLoopback
      address <- interface.getInetAddresses.asScala
      if address.getAddress.length == HostAddress.V4Bytes && !address.isLinkLocalAddress
    } yield address.getHostAddress
    candidates.nextOption().getOrElse(InetAddress.getLoopbackAddress.getHostAddress)
  }

  private def newWorker(name: String): ThreadPoolExecutor =
    new ThreadPoolExecutor(
      1,
      1,
      0L,
      TimeUnit.MILLISECONDS,
      new LinkedBlockingQueue[Runnable](),
      daemon(name)
    )

  private def startTimer(tasks: Seq[PeriodicTask]): ScheduledExecutorService = {
    // Two threads: a checkpoint that waits for the disk must not hold up long polls and offsets.
    val timer = Executors.newScheduledThreadPool(2, daemon("rmq-ordered-timer"))
    tasks.foreach { task =>
      timer.scheduleWithFixedDelay(
        () => guarded(task),
        task.everyMs,
        task.everyMs,
        TimeUnit.MILLISECONDS
      )
    }
    timer
  }

  /** A timer's task that throws would never run again. */
  private def guarded(task: PeriodicTask): Unit =
    Survive(logger, "a periodic task")(task.run())

  private def daemon(name: String): ThreadFactory = { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }

  private def closingOnFailure[T](close: => Unit)(action: => T): T =
    try action
    catch {
      case error: Throwable =>
        close
        throw error
    }
}
