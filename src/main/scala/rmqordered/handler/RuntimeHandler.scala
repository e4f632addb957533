package rmqordered.handler

import java.io.File

import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.offset.ConsumerOffsets
import rmqordered.stats.{DailyTotal, Rates, Traffic}
import rmqordered.store.MessageStore
import rmqordered.util.{Clock, Json}

/**
 * What the process takes in memory.
 *
 * @param tables
 *   of each table its name, how much it takes, about, and how much it may take
 */
final case class MemoryUse(
    heapUsed: () => Long,
    directUsed: () => Long,
    tables: () => Seq[(String, Long, Long)]
)

/**
 * What mqadmin's clusterList and brokerStatus print about a broker. RocketMQ's queues of waiting
 * requests do not exist here: requests are served as they are read, hence the zeros.
 *
 * @param folder
 *   where the messages are, on the disk that is told of
 * @param memory
 *   what all of this takes
 */
final class RuntimeHandler(
    identity: BrokerIdentity,
    store: MessageStore,
    offsets: ConsumerOffsets,
    traffic: Traffic,
    clock: Clock,
    folder: File,
    memory: MemoryUse
) {
  import RuntimeHandler._

  private val bootWall = clock.wallMillis()
  private val bootMonotonic = clock.monotonicMillis()

  /** 28. */
  def info(call: Call): Unit = {
    val root = Json.obj()
    val table = root
      .putObject("table")
      .put("bootTimestamp", bootWall.toString)
      .put("brokerActive", "true")
      .put("brokerName", identity.brokerName)
      .put("brokerVersionDesc", "rmq-ordered")
      .put("runtime", runtime)
    putTraffic(table)
    putStore(table)
    putFaults(table)
    putMemory(table)
    zeros.foreach(name => table.put(name, "0"))
    fractions.foreach(name => table.put(name, "0.0"))
    call.answer(Response.json(root))
  }

  private def putTraffic(table: ObjectNode): Unit = {
    table
      .put("putTps", text(traffic.storedRates))
      .put("getFoundTps", text(traffic.foundRates))
      .put("getMissTps", text(traffic.missedRates))
      .put("getTotalTps", text(sum(traffic.foundRates, traffic.missedRates)))
      .put("getTransferredTps", text(traffic.transferredRates))
      .put("putMessageTimesTotal", traffic.storedInAll.toString)
    putTotals(table, "msgPutTotal", traffic.stored)
    putTotals(table, "msgGetTotal", traffic.got)
  }

  private def putTotals(table: ObjectNode, name: String, total: DailyTotal): Unit = {
    val _ = table
      .put(s"${name}YesterdayMorning", total.yesterdayMorning.toString)
      .put(s"${name}TodayMorning", total.todayMorning.toString)
      .put(s"${name}TodayNow", total.now.toString)
  }

  private def putStore(table: ObjectNode): Unit = {
    val earliest = store.recordAt(store.logStart).fold(bootWall)(_.position.storeTimestamp)
    val _ = table
      .put("commitLogMinOffset", store.logStart.toString)
      .put("commitLogMaxOffset", store.logEnd.toString)
      .put("earliestMessageTimeStamp", earliest.toString)
      .put("commitLogDiskRatio", usedRatio.toString)
  }

  /** What went wrong on the disk, for whoever watches over brokers. */
  private def putFaults(table: ObjectNode): Unit = {
    val _ = table
      .put("consumerOffsetsLost", offsets.isLost.toString)
      .put("rebuiltQueueUnits", store.faults.rebuiltUnits.toString)
      .put("damagedAppends", store.faults.damagedAppends.toString)
      .put("scrubbedTo", store.scrubbedTo.toString)
  }

  /** Not of RocketMQ: what the process takes, and what is remembered of what clients said. */
  private def putMemory(table: ObjectNode): Unit = {
    table
      .put("heapUsed", memory.heapUsed().toString)
      .put("directMemoryUsed", memory.directUsed().toString)
    memory.tables().foreach { case (name, used, atMost) =>
      table.put(s"remembered.$name.bytes", used.toString)
      table.put(s"remembered.$name.maxBytes", atMost.toString)
    }
  }

  /** Three rates with spaces between them, which mqadmin splits. */
  private def text(rates: Rates): String =
    s"${rates.tenSeconds} ${rates.minute} ${rates.tenMinutes}"

  private def sum(one: Rates, other: Rates): Rates = Rates(
    one.tenSeconds + other.tenSeconds,
    one.minute + other.minute,
    one.tenMinutes + other.tenMinutes
  )

  private def usedRatio: Double = {
    val total = folder.getTotalSpace
    if (total > 0) (total - folder.getUsableSpace).toDouble / total else 0.0
  }

  /** As RocketMQ writes it. */
  private def runtime: String = {
    val seconds = (clock.monotonicMillis() - bootMonotonic) / MillisPerSecond
    val (days, hours) = (seconds / SecondsPerDay, seconds % SecondsPerDay / SecondsPerHour)
    val (minutes, rest) = (seconds % SecondsPerHour / SecondsPerMinute, seconds % SecondsPerMinute)
    s"[ $days days, $hours hours, $minutes minutes, $rest seconds ]"
  }
}

object RuntimeHandler {
  private val MillisPerSecond = 1000L
  private val SecondsPerMinute = 60L
  private val SecondsPerHour = 3600L
  private val SecondsPerDay = 86400L

  private val zeros = Seq(
    "sendThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueSize",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "pageCacheLockTimeMills",
    "dispatchBehindBytes",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum"
  )
  private val fractions = Seq("timerEnqueueTps", "timerDequeueTps")
}
