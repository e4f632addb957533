package rmqordered

import java.time.ZoneId
import java.util.concurrent.{Executor, RejectedExecutionException, ThreadLocalRandom}

import org.slf4j.LoggerFactory

import rmqordered.auth.{AccessControl, AclFile, StrictChecks}
import rmqordered.config.{BrokerConfig, LimitSettings, Settings}
import rmqordered.group.{ConsumerGroups, ProducerGroups, RequestModes}
import rmqordered.handler._
import rmqordered.model.QueueKey
import rmqordered.net.ConnectionListener
import rmqordered.protocol.RemotingCommand
import rmqordered.schedule.{DelayLimits, DelayPlanner}
import rmqordered.stats.Traffic
import rmqordered.store.DataDirectory
import rmqordered.util.{Clock, Survive, WorkTurns}

/**
 * The broker without its sockets and timers: what it keeps and what serves it, joined here. Tests
 * drive it with their own connections and clock.
 *
 * @param worker
 *   serves requests that may wait for a small file to be flushed, one at a time, in order; takes as
 *   many as it is given
 * @param leaseWorker
 *   the same for locks and unlocks alone, beside the worker
 * @param directMemory
 *   how many bytes of buffers there are outside of the heap
 */
final class BrokerCore(
    config: BrokerConfig,
    clock: Clock,
    directory: DataDirectory,
    identity: BrokerIdentity,
    worker: Executor,
    leaseWorker: Executor,
    limits: LimitSettings = LimitSettings.default,
    directMemory: () => Long = () => 0L
) extends ConnectionListener {
  import BrokerCore._

  private val turns = new WorkTurns(clock)
  private val fairWorker = new FairWorker(worker, MaxWorkerWaiting, MaxWorkerWaitingEach)
  private val remembered = new Remembered(limits)
  private val traffic = new Traffic(clock, ZoneId.systemDefault())
  private val parked = new ParkedPulls(clock, config(Settings.maxParkedPulls))
  // Arrivals reach the pull handler, which is made after the store it reads.
  @volatile private var onArrival: QueueKey => Unit = _ => ()
  private val parkedPops = new ParkedPops(clock, config(Settings.maxParkedPulls))
  private val state = new BrokerState(
    config,
    clock,
    directory,
    identity,
    remembered,
    (key, count) => {
      traffic.onStored(key.topic, count)
      onArrival(key)
    }
  )
  import state.{groups, kv, levels, locks, offsets, pops, runs, store, timers}
  private val consumers = new ConsumerGroups[Connection](
    clock,
    config(Settings.channelExpiredTimeout).toLong,
    remembered.members
  )
  private val producers = new ProducerGroups[Connection](remembered.producers)
  private val leaseMemory = new LeaseMemory(locks, clock, remembered.limits.leaseBytes)
  private val delays = new DelayPlanner(
    DelayLimits(config(Settings.messageDelayLevel), config(Settings.timerMaxDelaySec) * 1000L),
    clock,
    () => timers.hasRoom
  )
  private val creation = new TopicCreation(store.topics)
  private val revival = new PopRevival(
    store,
    pops,
    groups,
    creation,
    config(Settings.messageDelayLevel),
    clock,
    config(Settings.enableRetryTopicV2)
  )
  private val calls = new ClientCalls(clock, ClientCallTimeoutMs)
  private val news = new GroupNews(consumers, calls, clock)
  private val handlers = makeHandlers()
  private val guard = config(Settings.aclFile) match {
    case "" => AccessGuard.open
    case file =>
      val strict = StrictChecks.of(config, clock, identity.address, startsEmpty = store.isNew)
      val control = new AccessControl(AclFile.load(file, config(Settings.aclStrict)), strict)
      AccessGuard.of(control, store.recordAt(_).map(_.envelope.topic))
  }
  private val dispatcher =
    new RequestDispatcher(
      RoutingTable.of(handlers),
      fairWorker,
      new FairWorker(leaseWorker, MaxWorkerWaiting, MaxWorkerWaitingEach),
      guard,
      calls.answered
    )
  onArrival = { key =>
    // Whoever waits for messages must not cost their sender its answer.
    Survive(logger, "waking pulls")(handlers.pull.onArrival(key))
    Survive(logger, "waking pops")(handlers.pop.pop.onArrival(key))
  }

  override def received(command: RemotingCommand, connection: Connection): Unit =
    dispatcher.dispatch(command, connection)

  override def overloaded(command: RemotingCommand, connection: Connection): Unit =
    new Call(command, connection).fail(Failures.busy)

  override def disconnected(connection: Connection): Unit = {
    parked.disconnect(connection)
    parkedPops.disconnect(connection)
    calls.disconnect(connection)
    // By the worker, behind a heartbeat of the same connection that may still wait there.
    try
      fairWorker.executeLast(
        connection,
        () => Survive(logger, "forgetting a client")(handlers.client.disconnected(connection))
      )
    catch { case _: RejectedExecutionException => handlers.client.disconnected(connection) }
  }

  def periodicTasks: Seq[PeriodicTask] = state.periodicTasks ++ Seq(
    PeriodicTask(GroupNews.PauseMs, () => news.sendDue()),
    PeriodicTask(ParkedSweepMs, () => parked.expire()),
    PeriodicTask(ParkedSweepMs, () => parkedPops.expire()),
    PeriodicTask(ReviveMs, () => revival.run()),
    PeriodicTask(ClientSweepMs, () => handlers.client.closeExpired()),
    PeriodicTask(ClientCallSweepMs, () => calls.expire()),
    PeriodicTask(DelayedDeliveryMs, () => levels.run()),
    PeriodicTask(DelayedDeliveryMs, () => timers.run()),
    PeriodicTask(TrafficSampleMs, () => traffic.sample())
  )

  /** Answers waiting polls and lets no more wait. */
  def releasePolls(): Unit = {
    parked.close()
    parkedPops.close()
  }

  /** Flushes everything. Requests that still come are refused. */
  def close(): Unit = {
    releasePolls()
    state.close()
  }

  private def makeHandlers(): Handlers = {
    val sendSettings = SendSettings(
      identity,
      config(Settings.maxMessageSize),
      queues => ThreadLocalRandom.current().nextInt(queues),
      new UniqueKeys(ThreadLocalRandom.current().nextLong())
    )
    val wide = PullLimits(config(Settings.maxPullMessages), config(Settings.maxPullBytes))
    val pullTables = PullTables(store, offsets, groups, consumers, traffic)
    val fence = new LeaseFence(locks, identity)
    val writes = new WriteFence(runs, locks, identity)
    val filters = new Filters(config(Settings.enablePropertyFilter))
    val pull = new PullHandler(pullTables, parked, filters, fence, writes, wide, clock, turns)
    Handlers(
      route = new RouteHandler(store.topics, kv, identity),
      kv = new KvHandler(kv, remembered.limits.kvValueChars),
      topic = new TopicHandler(
        store,
        offsets,
        traffic,
        identity,
        config(Settings.maxQueuesPerTopic),
        remembered.limits.topicAttributes,
        topic => {
          pops.removeTopic(topic)
          runs.removeTopic(topic)
          locks.removeTopic(topic)
        },
        turns
      ),
      send = new SendHandler(store, creation, groups, locks, delays, writes, sendSettings),
      pull = pull,
      offset = new OffsetHandler(store, offsets, groups, fence),
      client = new ClientHandler(
        groups,
        consumers,
        producers,
        creation,
        filters,
        news,
        remembered.limits
      ),
      retry = new RetryHandler(store, creation, groups, delays, sendSettings),
      reset = new ResetHandler(
        ResetTables(store, offsets, groups, consumers, locks),
        identity,
        calls,
        config(Settings.useServerSideResetOffset),
        pull.onReset
      ),
      relay = new RelayHandler(consumers, store, identity, calls),
      lock = new LockHandler(locks, leaseMemory, writes, clock, remembered.limits.queuesPerLock),
      group = new GroupHandler(
        GroupTables(groups, consumers, producers, offsets, store, traffic),
        identity,
        locks.removeGroup,
        pops.removeGroup,
        turns
      ),
      runtime = new RuntimeHandler(
        identity,
        store,
        offsets,
        traffic,
        clock,
        directory.path.toFile,
        remembered.use(leaseMemory, directMemory)
      ),
      stream = new StreamHandler(store),
      query = new QueryHandler(store, config(Settings.maxPullBytes), turns),
      pop = popHandlers(filters)
    )
  }

  private def popHandlers(filters: Filters): PopHandlers = {
    val reader = new PopReader(
      store,
      offsets,
      pops,
      identity,
      clock,
      bound => ThreadLocalRandom.current().nextInt(bound),
      turns
    )
    val requests = new PopRequests(store, groups, filters, clock)
    PopHandlers(
      new PopHandler(requests, reader, parkedPops, store, traffic, clock),
      new PopAckHandler(store, offsets, pops, parkedPops, clock),
      new AssignmentHandler(
        store.topics,
        groups,
        consumers,
        new RequestModes(directory.table("messageRequestMode")),
        identity
      ),
      new PopStateHandler(store, pops, clock)
    )
  }
}

object BrokerCore {
  private val logger = LoggerFactory.getLogger(classOf[BrokerCore])

  // Requests waiting for one of the workers, of all connections and of one; beyond that clients are
  // told to come back.
  private val MaxWorkerWaiting = 10000
  private val MaxWorkerWaitingEach = 1000

  // Long polls end at most so much after their time; clients allow them ten seconds more.
  private val ParkedSweepMs = 100L

  // RocketMQ 5.x ClientHousekeepingService: every 10 s.
  private val ClientSweepMs = 10000L

  // As long as RocketMQ waits for a client (Broker2Client.callClient).
  private val ClientCallTimeoutMs = 10000L
  private val ClientCallSweepMs = 1000L

  // What timed out comes back so much later at most; RocketMQ takes two to four seconds.
  private val ReviveMs = 200L

  // RocketMQ's ScheduleMessageService looks as often.
  private val DelayedDeliveryMs = 100L

  // RocketMQ's StoreStatsService samples as often.
  private val TrafficSampleMs = 1000L
}
