package rmqordered

import java.time.ZoneId
import java.util.concurrent.{Executor, RejectedExecutionException, ThreadLocalRandom}

import org.slf4j.LoggerFactory

import rmqordered.auth.{AccessControl, AclFile, StrictChecks}
import rmqordered.config.{BrokerConfig, LimitSettings, Settings}
import rmqordered.group.{ConsumerGroups, ProducerGroups, RequestModes, SubscriptionGroups}
import rmqordered.handler._
import rmqordered.lease.{
  LeaseFile,
  LeaseJournal,
  LeaseSettings,
  QueueLockManager,
  ReadingRuns,
  RunLimits
}
import rmqordered.model.{MessageQueue, QueueKey, TopicConfig}
import rmqordered.net.ConnectionListener
import rmqordered.offset.{ConsumerOffsets, OffsetLoss}
import rmqordered.pop.{LogJournal, PopFollower, PopTable}
import rmqordered.protocol.RemotingCommand
import rmqordered.schedule.{DelayLimits, DelayPlanner, LevelDelivery, TimerDelivery}
import rmqordered.stats.Traffic
import rmqordered.store.{DataDirectory, KvTable, MessageStore, TopicTable}
import rmqordered.util.{Clock, OwnThread, Survive, WorkTurns}

/** Something to be done again and again. */
final case class PeriodicTask(everyMs: Long, run: () => Unit)

/**
 * The broker without its sockets and timers: tables, store and handlers, made and joined here.
 * Tests drive it with their own connections and clock.
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
  private val pops = new PopTable
  private val popFollower = new PopFollower(pops, directory.pops)
  private val parkedPops = new ParkedPops(clock, config(Settings.maxParkedPulls))
  private val store = new MessageStore(
    directory,
    config,
    new TopicTable(directory.table("topics"), SystemTopics.of(config), remembered.topics),
    clock,
    (key, count) => {
      traffic.onStored(key.topic, count)
      onArrival(key)
    },
    followers = Seq(popFollower)
  )
  popFollower.clampTo(store)
  pops.connect(new LogJournal(store, identity.storeHost))
  private val kv = new KvTable(directory.table("kvConfig"), remembered.pairs)
  private val groups = new SubscriptionGroups(
    directory.table("subscriptionGroup"),
    config(Settings.autoCreateSubscriptionGroup),
    remembered.groups
  )
  private val offsets = new ConsumerOffsets(
    directory.table("consumerOffset"),
    remembered.offsets,
    isFirstStart = store.logEnd == 0L,
    everything = OffsetLoss(
      Option(groups.all.map(_.name).toSet).filter(_.nonEmpty),
      store.topics.all.filter(hasMessages).map(_.name).toSet
    )
  )
  // Writes them too, if there was no file: from now on a missing one is a loss.
  offsets.clampTo(store.maxOffset)
  private val consumers = new ConsumerGroups[Connection](
    clock,
    config(Settings.channelExpiredTimeout).toLong,
    remembered.members
  )
  private val producers = new ProducerGroups[Connection](remembered.producers)
  private val locks = new QueueLockManager(
    new LeaseJournal(
      directory.journal("queueLeases"),
      new LeaseFile(directory.table("queueLeases"))
    ),
    clock,
    LeaseSettings(
      config(Settings.lockMaxLiveTimeMs).toLong,
      config(Settings.maxQueueLeases),
      // Milliseconds go by faster than epochs are given.
      floorAfterLoss = if (store.isNew) 0L else Math.max(clock.wallMillis(), store.lastStoreTime),
      exists = hasQueue
    )
  )
  private val recorder = new OwnThread("rmq-ordered-recorder")
  private val runs = new ReadingRuns(
    directory.records("runs", recorder, mayBeMissing = store.isNew),
    locks,
    clock,
    RunLimits(limits.maxRuns, limits.maxRunReads, limits.maxRunsPerLease, limits.runMemoryMs)
  )
  private val leaseMemory = new LeaseMemory(locks, clock, remembered.limits.leaseBytes)
  private val levels = new LevelDelivery(
    store,
    config(Settings.messageDelayLevel),
    directory.table("delayOffset"),
    clock
  )
  private val timers = new TimerDelivery(
    store,
    directory.table("timerProgress"),
    clock,
    config(Settings.timerMaxWaiting)
  )
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

  def periodicTasks: Seq[PeriodicTask] = Seq(
    PeriodicTask(config(Settings.flushConsumerOffsetInterval).toLong, () => offsets.flush()),
    PeriodicTask(config(Settings.flushFencedOffsetInterval).toLong, () => offsets.flushFenced()),
    PeriodicTask(LeaseSettings.RenewalSaveMs, () => locks.flush()),
    PeriodicTask(GroupFlushMs, () => groups.flush()),
    PeriodicTask(RunSweepMs, () => runs.sweep()),
    PeriodicTask(GroupNews.PauseMs, () => news.sendDue()),
    PeriodicTask(ParkedSweepMs, () => parked.expire()),
    PeriodicTask(ParkedSweepMs, () => parkedPops.expire()),
    PeriodicTask(ReviveMs, () => revival.run()),
    PeriodicTask(ClientSweepMs, () => handlers.client.closeExpired()),
    PeriodicTask(ClientCallSweepMs, () => calls.expire()),
    PeriodicTask(DelayedDeliveryMs, () => levels.run()),
    PeriodicTask(DelayedDeliveryMs, () => timers.run()),
    PeriodicTask(config(Settings.flushDelayOffsetInterval).toLong, () => flushDelays()),
    PeriodicTask(config(Settings.checkpointIntervalMs).toLong, () => store.checkpoint()),
    PeriodicTask(DiskCheckMs, () => store.checkDisk()),
    PeriodicTask(RebuildMs, () => store.rebuildQueues()),
    PeriodicTask(ScrubMs, () => store.scrub(config(Settings.scrubBytesPerSecond))),
    PeriodicTask(RetentionMs, () => retire()),
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
    store.close()
    offsets.flush()
    groups.flush()
    locks.flush()
    recorder.close()
    flushDelays()
  }

  private def hasMessages(topic: TopicConfig): Boolean =
    (0 until topic.queueNums).exists(id => store.maxOffset(QueueKey(topic.name, id)) > 0)

  private def hasQueue(queue: MessageQueue): Boolean =
    queue.brokerName == identity.brokerName && queue.queueId >= 0 &&
      store.topics.get(queue.topic).exists(queue.queueId < _.queueNums)

  /**
   * Retention stops before the oldest message that still waits for its time. The end of the log is
   * looked up first: a message that comes to wait after that is beyond it.
   */
  private def retire(): Unit = {
    val end = store.logEnd
    val waiting = levels.oldestWaiting.toSeq ++ timers.oldestWaiting
    val _ = store.retire((waiting :+ end).min)
  }

  private def flushDelays(): Unit = {
    levels.flush()
    timers.flush()
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

  // Renewals come every 20 s; a run that lost a lease is refused at once, and marked so much later.
  private val RunSweepMs = 10000L

  // Requests waiting for one of the workers, of all connections and of one; beyond that clients are told to
  // come back.
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

  // So much later at most groups that clients have created are on disk.
  private val GroupFlushMs = 1000L

  // RocketMQ's ScheduleMessageService looks as often.
  private val DelayedDeliveryMs = 100L

  private val DiskCheckMs = 1000L

  // Readers of a damaged queue are told to come back; they should not have to come often.
  private val RebuildMs = 100L

  private val ScrubMs = 1000L

  // RocketMQ's StoreStatsService samples as often.
  private val TrafficSampleMs = 1000L

  // RocketMQ 5.x cleanResourceInterval: 10 s.
  private val RetentionMs = 10000L
}
