package rmqordered.handler

import rmqordered.util.{Clock, Json}

/** What mqadmin's clusterList and brokerStatus print about a broker. */
final class RuntimeHandler(identity: BrokerIdentity, clock: Clock) {
  private val bootWall = clock.wallMillis()

  /** 28. Three space-separated rates are what mqadmin splits; rates are not measured yet. */
  def info(call: Call): Unit = {
    val root = Json.obj()
    root
      .putObject("table")
      .put("bootTimestamp", bootWall.toString)
      .put("brokerActive", "true")
      .put("brokerName", identity.brokerName)
      .put("brokerVersionDesc", "rmq-ordered")
      .put("putTps", "0.0 0.0 0.0")
      .put("getTransferredTps", "0.0 0.0 0.0")
      .put("sendThreadPoolQueueSize", "0")
      .put("sendThreadPoolQueueHeadWaitTimeMills", "0")
      .put("pullThreadPoolQueueSize", "0")
      .put("pullThreadPoolQueueHeadWaitTimeMills", "0")
      .put("queryThreadPoolQueueSize", "0")
      .put("queryThreadPoolQueueHeadWaitTimeMills", "0")
      .put("EndTransactionQueueSize", "0")
      .put("EndTransactionThreadPoolQueueCapacity", "0")
      .put("pageCacheLockTimeMills", "0")
      .put("earliestMessageTimeStamp", bootWall.toString)
      .put("commitLogDiskRatio", "0.0")
      .put("timerReadBehind", "0")
      .put("timerOffsetBehind", "0")
      .put("timerCongestNum", "0")
      .put("timerEnqueueTps", "0.0")
      .put("timerDequeueTps", "0.0")
    call.answer(Response.json(root))
  }
}
