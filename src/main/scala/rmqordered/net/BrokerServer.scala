package rmqordered.net

import java.net.InetSocketAddress
import java.util.concurrent.TimeUnit

import io.netty.bootstrap.ServerBootstrap
import io.netty.channel.group.DefaultChannelGroup
import io.netty.channel.nio.NioIoHandler
import io.netty.channel.socket.SocketChannel
import io.netty.channel.socket.nio.NioServerSocketChannel
import io.netty.channel.{
  Channel,
  ChannelHandler,
  ChannelInitializer,
  ChannelOption,
  MultiThreadIoEventLoopGroup,
  WriteBufferWaterMark
}
import io.netty.handler.timeout.IdleStateHandler
import io.netty.util.concurrent.GlobalEventExecutor
import io.netty.util.internal.PlatformDependent

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.util.SystemClock

/**
 * The listening socket and its connections. The only user of Netty beside its codecs.
 *
 * `bind` takes the port but accepts nobody; `accept` opens the door once there is somebody to
 * serve. Between the two the port is known, which is part of the broker's identity.
 */
final class BrokerServer(config: BrokerConfig) {
  import BrokerServer._

  // First of all: what cannot be set up must not leave threads behind.
  private val tls = TlsSetup.of(config)

  private val acceptor = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory())
  private val workers = new MultiThreadIoEventLoopGroup(threads, NioIoHandler.newFactory())
  private val connections = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE)
  private val encoder = new FrameEncoder
  private val admission =
    Admission.of(config(Settings.maxConnections), config(Settings.maxConnectionsPerAddress))
  private val turns = LoopTurns.perThread(SystemClock)
  private val limits = ConnectionLimits.of(config)
  private val unsent = new Unsent(
    Math.min(config(Settings.maxUnsentBytes), PlatformDependent.maxDirectMemory() / UnsentPart)
  )
  private val memory = new RequestMemory(
    Math.min(config(Settings.maxRequestBytes), Runtime.getRuntime.maxMemory() / RequestPart),
    SystemClock
  )
  @volatile private var listener: Option[ConnectionListener] = None
  private var server: Channel = _

  private def threads: Int = {
    val wanted = config(Settings.serverSelectorThreads)
    if (wanted > 0) wanted else Math.max(2, Runtime.getRuntime.availableProcessors())
  }

  /** @throws java.io.IOException when the address cannot be taken */
  def bind(address: InetSocketAddress): InetSocketAddress = {
    val highWater = config(Settings.writeBufferHighWaterMark)
    val bound = new ServerBootstrap()
      .group(acceptor, workers)
      .channel(classOf[NioServerSocketChannel])
      .option[java.lang.Boolean](ChannelOption.AUTO_READ, false)
      .option[java.lang.Boolean](ChannelOption.SO_REUSEADDR, true)
      .option[Integer](ChannelOption.SO_BACKLOG, Backlog)
      .childOption[java.lang.Boolean](ChannelOption.TCP_NODELAY, true)
      .childOption[java.lang.Boolean](ChannelOption.AUTO_CLOSE, ClientConnection.ClosesOnWriteError)
      .childOption(
        ChannelOption.WRITE_BUFFER_WATER_MARK,
        new WriteBufferWaterMark(highWater / 2, highWater)
      )
      .handler(new Doorkeeper(admission, SystemClock))
      .childHandler(new ChannelInitializer[SocketChannel] {
        override def initChannel(channel: SocketChannel): Unit = initialise(channel)
      })
      .bind(address)
      .awaitUninterruptibly()
    if (!bound.isSuccess) {
      shutDownThreads()
      throw new java.io.IOException(
        s"The address ${address.getHostString}:${address.getPort} cannot be listened on: " +
          s"${bound.cause().getMessage}.",
        bound.cause()
      )
    }
    server = bound.channel()
    server.localAddress().asInstanceOf[InetSocketAddress]
  }

  /** Lets one request be served before anybody may connect, see `Rehearsal`. */
  def rehearse(served: ConnectionListener): Unit =
    // Where users sign their requests this one would be denied, and noted as an attempt.
    if (config(Settings.aclFile).isEmpty) Rehearsal.run(handlers(served): _*)

  /** Starts to serve. */
  def accept(served: ConnectionListener): Unit = {
    listener = Some(served)
    val _ = server.config().setAutoRead(true)
  }

  private def initialise(channel: SocketChannel): Unit = listener match {
    case Some(served) =>
      connections.add(channel)
      val idleSeconds = config(Settings.serverChannelMaxIdleTimeSeconds).toLong
      val _ = channel
        .pipeline()
        .addLast(
          new IdleStateHandler(0, 0, idleSeconds, TimeUnit.SECONDS),
          new TlsDetector(tls)
        )
        .addLast(handlers(served): _*)
      Doorkeeper.arrived(channel)
    case None =>
      val _ = channel.close()
  }

  private def handlers(served: ConnectionListener): Seq[ChannelHandler] = Seq(
    new UnsentLimit(unsent, config(Settings.serverChannelMaxIdleTimeSeconds) * 1000L),
    encoder,
    new FrameDecoder(config(Settings.maxFrameBytes), memory),
    new ClientConnection(served, limits, memory, turns)
  )

  /** Takes no new connections; those that exist go on. */
  def stopAccepting(): Unit = {
    val _ = server.close().awaitUninterruptibly()
  }

  /** Writes what is still to be written, then closes everything. */
  def close(): Unit = {
    connections.forEach { channel =>
      val _ = channel.eventLoop().submit(() => channel.flush())
    }
    connections.close().awaitUninterruptibly(CloseTimeoutMs)
    shutDownThreads()
  }

  private def shutDownThreads(): Unit = {
    val acceptorDone = acceptor.shutdownGracefully(0, CloseTimeoutMs, TimeUnit.MILLISECONDS)
    val workersDone = workers.shutdownGracefully(0, CloseTimeoutMs, TimeUnit.MILLISECONDS)
    acceptorDone.awaitUninterruptibly(CloseTimeoutMs)
    val _ = workersDone.awaitUninterruptibly(CloseTimeoutMs)
  }
}

object BrokerServer {
  private val Backlog = 1024

  // The part of the buffers' memory (-XX:MaxDirectMemorySize) that unsent answers may take; the
  // rest is for requests, and for answers to clients that do read.
  private val UnsentPart = 2

  // The part of the heap that requests may take; what is made of them comes on top.
  private val RequestPart = 4

  // A stop waits this long for clients that do not take their last answers.
  private val CloseTimeoutMs = 3000L
}
