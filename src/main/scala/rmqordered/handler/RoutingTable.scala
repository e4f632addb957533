package rmqordered.handler

import rmqordered.handler.ServedBy.{LeaseWorker, NetworkThread, Worker}
import rmqordered.protocol.{RequestCode => Code}

/** The handlers, one per family of requests. */
final case class Handlers(
    route: RouteHandler,
    kv: KvHandler,
    topic: TopicHandler,
    send: SendHandler,
    pull: PullHandler,
    offset: OffsetHandler,
    client: ClientHandler,
    retry: RetryHandler,
    reset: ResetHandler,
    relay: RelayHandler,
    lock: LockHandler,
    group: GroupHandler,
    runtime: RuntimeHandler,
    stream: StreamHandler,
    query: QueryHandler,
    pop: PopHandlers
)

/** The handlers of pops. */
final case class PopHandlers(
    pop: PopHandler,
    ack: PopAckHandler,
    assignment: AssignmentHandler,
    state: PopStateHandler
)

/** Which request goes where. What is not listed is answered "not supported". */
object RoutingTable {

  def of(h: Handlers): Map[Int, Route] =
    nameServer(h) ++ messages(h) ++ clients(h) ++ administration(h) ++ groups(h) ++
      pops(h.pop) ++ refused

  private def nameServer(h: Handlers): Map[Int, Route] = Map(
    Code.GetRouteInfoByTopic -> Route(NetworkThread, h.route.routeInfo),
    Code.GetBrokerClusterInfo -> Route(NetworkThread, h.route.clusterInfo),
    Code.GetAllTopicListFromNameServer -> Route(NetworkThread, h.route.topicList),
    Code.GetTopicsByCluster -> Route(NetworkThread, h.route.topicsByCluster),
    Code.PutKvConfig -> Route(Worker, h.kv.put),
    Code.GetKvConfig -> Route(NetworkThread, h.kv.get),
    Code.DeleteKvConfig -> Route(Worker, h.kv.delete),
    Code.GetKvListByNamespace -> Route(NetworkThread, h.kv.list),
    Code.DeleteTopicInNameServer -> Route(NetworkThread, h.topic.deleteInNameServer)
  )

  private def messages(h: Handlers): Map[Int, Route] = Map(
    Code.SendMessage -> Route(NetworkThread, h.send.send),
    Code.SendMessageV2 -> Route(NetworkThread, h.send.send),
    Code.SendBatchMessage -> Route(NetworkThread, h.send.sendBatch),
    Code.GetSendStream -> Route(NetworkThread, h.stream.last),
    Code.PullMessage -> Route(NetworkThread, h.pull.pull),
    Code.LitePullMessage -> Route(NetworkThread, h.pull.pull),
    Code.QueryMessage -> Route(NetworkThread, h.query.byKey),
    Code.ViewMessageById -> Route(NetworkThread, h.query.byOffset),
    Code.QueryConsumerOffset -> Route(NetworkThread, h.offset.query),
    Code.UpdateConsumerOffset -> Route(NetworkThread, h.offset.update),
    Code.GetMaxOffset -> Route(NetworkThread, h.offset.max),
    Code.GetMinOffset -> Route(NetworkThread, h.offset.min),
    Code.SearchOffsetByTimestamp -> Route(NetworkThread, h.offset.byTimestamp),
    Code.GetEarliestMsgStoreTime -> Route(NetworkThread, h.offset.earliestStoreTime)
  )

  private def clients(h: Handlers): Map[Int, Route] = Map(
    Code.HeartBeat -> Route(Worker, h.client.heartbeat),
    Code.UnregisterClient -> Route(Worker, h.client.unregister),
    Code.GetConsumerListByGroup -> Route(NetworkThread, h.client.consumerIds),
    Code.CheckClientConfig -> Route(NetworkThread, h.client.checkClientConfig),
    Code.ConsumerSendMsgBack -> Route(NetworkThread, h.retry.sendBack),
    Code.LockBatchMq -> Route(LeaseWorker, h.lock.lock),
    Code.UnlockBatchMq -> Route(LeaseWorker, h.lock.unlock),
    Code.GetQueueLeases -> Route(NetworkThread, h.lock.leases)
  )

  private def administration(h: Handlers): Map[Int, Route] = Map(
    Code.UpdateAndCreateTopic -> Route(Worker, h.topic.updateOrCreate),
    Code.DeleteTopicInBroker -> Route(Worker, h.topic.delete),
    Code.GetTopicConfig -> Route(NetworkThread, h.topic.get),
    Code.GetAllTopicConfig -> Route(NetworkThread, h.topic.getAll),
    Code.GetTopicStatsInfo -> Route(NetworkThread, h.topic.stats),
    Code.GetBrokerRuntimeInfo -> Route(NetworkThread, h.runtime.info)
  )

  private def groups(h: Handlers): Map[Int, Route] = Map(
    Code.UpdateAndCreateSubscriptionGroup -> Route(Worker, h.group.updateOrCreate),
    Code.UpdateAndCreateSubscriptionGroupList -> Route(Worker, h.group.updateOrCreateAll),
    Code.GetSubscriptionGroupConfig -> Route(NetworkThread, h.group.get),
    Code.GetAllSubscriptionGroupConfig -> Route(NetworkThread, h.group.getAll),
    Code.DeleteSubscriptionGroup -> Route(Worker, h.group.delete),
    Code.GetConsumeStats -> Route(NetworkThread, h.group.consumeStats),
    Code.GetConsumerConnectionList -> Route(NetworkThread, h.group.consumerConnections),
    Code.GetProducerConnectionList -> Route(NetworkThread, h.group.producerConnections),
    Code.QueryTopicConsumeByWho -> Route(NetworkThread, h.group.consumersOfTopic),
    Code.QueryTopicsByConsumer -> Route(NetworkThread, h.group.topicsOfConsumer),
    Code.QuerySubscriptionByConsumer -> Route(NetworkThread, h.group.subscriptionOfConsumer),
    Code.InvokeBrokerToResetOffset -> Route(Worker, h.reset.reset),
    Code.GetConsumerRunningInfo -> Route(NetworkThread, h.relay.runningInfo),
    Code.ConsumeMessageDirectly -> Route(NetworkThread, h.relay.consumeDirectly)
  )

  private def pops(h: PopHandlers): Map[Int, Route] = Map(
    Code.PopMessage -> Route(NetworkThread, h.pop.pop),
    Code.Notification -> Route(NetworkThread, h.pop.notification),
    Code.PollingInfo -> Route(NetworkThread, h.pop.pollingInfo),
    Code.AckMessage -> Route(NetworkThread, h.ack.ack),
    Code.BatchAckMessage -> Route(NetworkThread, h.ack.ackBatch),
    Code.ChangeMessageInvisibleTime -> Route(NetworkThread, h.ack.changeInvisibleTime),
    Code.QueryAssignment -> Route(NetworkThread, h.assignment.query),
    Code.SetMessageRequestMode -> Route(Worker, h.assignment.setMode),
    Code.GetPopState -> Route(NetworkThread, h.state.state)
  )

  /** What RocketMQ serves and this broker does not, for a reason worth saying. */
  private val refused: Map[Int, Route] = {
    def because(code: Int, reason: String) =
      code -> Route(NetworkThread, _ => throw Failures.unsupported(code, reason))
    val noReplies = "request-reply messages are not served, answer through a topic"
    Map(
      because(Code.EndTransaction, "transactions are not served"),
      because(Code.SendReplyMessage, noReplies),
      because(Code.SendReplyMessageV2, noReplies),
      because(Code.PushReplyMessageToClient, noReplies)
    )
  }
}
