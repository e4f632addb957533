package rmqordered

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.group.SubscriptionGroups
import rmqordered.handler.{BrokerIdentity, Remembered}
import rmqordered.lease.{
  LeaseFile,
  LeaseJournal,
  LeaseSettings,
  QueueLockManager,
  ReadingRuns,
  RunLimits
}
import rmqordered.model.{MessageQueue, QueueKey, TopicConfig}
import rmqordered.offset.{ConsumerOffsets, OffsetLoss}
import rmqordered.pop.{LogJournal, PopFollower, PopTable}
import rmqordered.schedule.{LevelDelivery, TimerDelivery}
import rmqordered.store.{DataDirectory, KvTable, MessageStore, TopicTable}
import rmqordered.util.{Clock, OwnThread}

/** Something to be done again and again. */
final case class PeriodicTask(everyMs: Long, run: () => Unit)

/**
 * Everything that the broker keeps in its folder, read when it is made and written by its periodic
 * tasks: messages, committed offsets, leases, groups, and what waits for its time. Who is connected
 * is not kept.
 *
 * @param onStored
 *   hears of new messages: the queue, and how many
 */
final class BrokerState(
    config: BrokerConfig,
    clock: Clock,
    directory: DataDirectory,
    identity: BrokerIdentity,
    remembered: Remembered,
    onStored: (QueueKey, Int) => Unit
) {
  import BrokerState._

  val pops = new PopTable
  private val popFollower = new PopFollower(pops, directory.pops)
  val store = new MessageStore(
    directory,
    config,
    new TopicTable(directory.table("topics"), SystemTopics.of(config), remembered.topics),
    clock,
    onStored,
    followers = Seq(popFollower)
  )
  popFollower.clampTo(store)
  pops.connect(new LogJournal(store, identity.storeHost))
  val kv = new KvTable(directory.table("kvConfig"), remembered.pairs)
  val groups = new SubscriptionGroups(
    directory.table("subscriptionGroup"),
    config(Settings.autoCreateSubscriptionGroup),
    remembered.groups
  )
  val offsets = new ConsumerOffsets(
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
  val locks = new QueueLockManager(
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
  val runs = new ReadingRuns(
    directory.records("runs", recorder, mayBeMissing = store.isNew),
    locks,
    clock,
    runLimits
  )
  val levels = new LevelDelivery(
    store,
    config(Settings.messageDelayLevel),
    directory.table("delayOffset"),
    clock
  )
  val timers = new TimerDelivery(
    store,
    directory.table("timerProgress"),
    clock,
    config(Settings.timerMaxWaiting)
  )

  def periodicTasks: Seq[PeriodicTask] = Seq(
    PeriodicTask(config(Settings.flushConsumerOffsetInterval).toLong, () => offsets.flush()),
    PeriodicTask(config(Settings.flushFencedOffsetInterval).toLong, () => offsets.flushFenced()),
    PeriodicTask(LeaseSettings.RenewalSaveMs, () => locks.flush()),
    PeriodicTask(GroupFlushMs, () => groups.flush()),
    PeriodicTask(RunSweepMs, () => runs.sweep()),
    PeriodicTask(config(Settings.flushDelayOffsetInterval).toLong, () => flushDelays()),
    PeriodicTask(config(Settings.checkpointIntervalMs).toLong, () => store.checkpoint()),
    PeriodicTask(DiskCheckMs, () => store.checkDisk()),
    PeriodicTask(RebuildMs, () => store.rebuildQueues()),
    PeriodicTask(ScrubMs, () => store.scrub(config(Settings.scrubBytesPerSecond))),
    PeriodicTask(RetentionMs, () => retire())
  )

  /** Flushes everything. Nothing is stored any more. */
  def close(): Unit = {
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

  private def runLimits: RunLimits = {
    val limits = remembered.limits
    RunLimits(limits.maxRuns, limits.maxRunReads, limits.maxRunsPerLease, limits.runMemoryMs)
  }
}

object BrokerState {
  // Renewals come every 20 s; a run that lost a lease is refused at once, and marked so much later.
  private val RunSweepMs = 10000L

  // So much later at most groups that clients have created are on disk.
  private val GroupFlushMs = 1000L

  private val DiskCheckMs = 1000L

  // Readers of a damaged queue are told to come back; they should not have to come often.
  private val RebuildMs = 100L

  private val ScrubMs = 1000L

  // RocketMQ 5.x cleanResourceInterval: 10 s.
  private val RetentionMs = 10000L
}
