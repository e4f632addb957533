package rmqordered.handler

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import rmqordered.lease.{
  GrantedQueue,
  Lease,
  LeaseKey,
  LockOutcome,
  OwnershipEvent,
  QueueLockManager
}
import rmqordered.model.{MessageQueue, Names}
import rmqordered.util.{Clock, Json}

/** Locks of queues, and who has them. */
final class LockHandler(
    locks: QueueLockManager,
    memory: LeaseMemory,
    writes: WriteFence,
    clock: Clock,
    maxQueues: Int
) {

  /**
   *   41. Always answered 0; what was refused is missing from `lockOKMQSet`, as in RocketMQ. A
   *       grant is answered when nothing is being written any more by runs that read the queue
   *       before. That is not waited for here: other requests go on.
   */
  def lock(call: Call): Unit = {
    val body = new LockBody(call.jsonBody)
    body.ensureLegal()
    val outcomes = memory.tryLock(body.group, body.clientId, body.queues)
    val root = Json.obj()
    val granted = root.putArray("lockOKMQSet")
    val leases = root.putArray("leases")
    body.queues.distinct.foreach { queue =>
      val outcome = outcomes(queue)
      if (isGranted(outcome)) granted.add(Bodies.messageQueue(queue))
      leases.add(describe(queue, outcome))
    }
    root.set[JsonNode](Features.FieldName, Json.texts(Features.announced))
    writes.whenWritten(grantsIn(body.group, outcomes))(call.answer(Response.json(root)))
  }

  /** Renewals too: a repeated request must not be answered before the one that it repeats. */
  private def grantsIn(
      group: String,
      outcomes: Map[MessageQueue, LockOutcome]
  ): Iterable[GrantedQueue] = outcomes.collect {
    case (queue, LockOutcome.Granted(lease)) => GrantedQueue(LeaseKey(group, queue), lease.epoch)
    case (queue, LockOutcome.Renewed(lease)) => GrantedQueue(LeaseKey(group, queue), lease.epoch)
  }

  private def isGranted(outcome: LockOutcome): Boolean = outcome match {
    case LockOutcome.Granted(_) | LockOutcome.Renewed(_) => true
    case LockOutcome.HeldBy(_) | LockOutcome.Refused(_) => false
  }

  private def describe(queue: MessageQueue, outcome: LockOutcome): ObjectNode = {
    val node = Bodies.messageQueue(queue).put("granted", isGranted(outcome))
    outcome match {
      case LockOutcome.Granted(lease) => putLease(node, lease)
      case LockOutcome.Renewed(lease) => putLease(node, lease)
      case LockOutcome.HeldBy(lease) => putLease(node, lease)
      case LockOutcome.Refused(reason) => node.put("reason", reason)
    }
  }

  private def putLease(node: ObjectNode, lease: Lease): ObjectNode =
    node
      .put("clientId", lease.clientId)
      .put("epoch", lease.epoch)
      .put("expiresInMillis", lease.expiresInMillis(clock.monotonicMillis()))

  /** 42. Who says `runGoesOn` may go on writing what it has read: no batch of it is at work. */
  def unlock(call: Call): Unit = {
    val body = new LockBody(call.jsonBody)
    if (body.runGoesOn)
      writes.givenBack(locks.heldBy(body.group, body.clientId, body.queues))
    locks.unlock(body.group, body.clientId, body.queues)
    call.answer(Response.ok)
  }

  /** 19001, this project's own: the lock table and its history. */
  def leases(call: Call): Unit = {
    val group = call.optional("consumerGroup")
    val topic = call.optional("topic")
    def isWanted(key: LeaseKey) =
      group.forall(_ == key.group) && topic.forall(_ == key.queue.topic) &&
        call.maySee(key.queue.topic)
    val snapshot = locks.snapshot()
    val root = Json.obj()
    val leases = root.putArray("leases")
    snapshot.leases.sortBy { case (key, _) =>
      (key.group, key.queue.topic, key.queue.queueId)
    }.foreach {
      case (key, lease) if isWanted(key) => leases.add(describe(key, lease, snapshot.now))
      case _ => ()
    }
    val history = root.putArray("history")
    snapshot.history.filter(event => isWanted(event.key)).foreach(event =>
      history.add(describe(event))
    )
    call.answer(Response.json(root))
  }

  private def describe(key: LeaseKey, lease: Lease, now: Long): ObjectNode =
    Bodies
      .messageQueue(key.queue)
      .put("group", key.group)
      .put("clientId", lease.clientId)
      .put("epoch", lease.epoch)
      .put("grantedAt", lease.grantedAtWall)
      .put("renewedAt", lease.renewedAtWall)
      .put("expiresInMillis", lease.expiresInMillis(now))
      .put("live", lease.isLive(now))

  private def describe(event: OwnershipEvent): ObjectNode =
    Bodies
      .messageQueue(event.key.queue)
      .put("at", event.atWall)
      .put("group", event.key.group)
      .put("previousOwner", event.previousOwner.orNull)
      .put("owner", event.owner.orNull)
      .put("epoch", event.epoch)
      .put("reason", event.reason.text)

  private final class LockBody(body: ObjectNode) {
    val group: String = body.path("consumerGroup").asText()
    val clientId: String = body.path("clientId").asText()
    val queues: Seq[MessageQueue] = {
      val named = body.path("mqSet").size()
      if (named > maxQueues)
        throw Failures.tooMany("queues", named, maxQueues)
      Bodies.messageQueues(body.path("mqSet"))
    }
    val runGoesOn: Boolean = body.path("runGoesOn").asBoolean(false)

    /** Leases outlive restarts: nothing illegal may get into their table. */
    def ensureLegal(): Unit = {
      if (clientId.isBlank) throw Failures.invalid("The lock request's clientId is blank.")
      Failures.ensureNone(
        Names.textProblem("clientId", clientId) ++
          queues.flatMap(queue => Names.textProblem("brokerName", queue.brokerName))
      )
      (Names.groupProblem(group) ++ queues.flatMap(queue =>
        Names.topicProblem(queue.topic)
      )).headOption
        .foreach(problem => throw Failures.invalid(problem))
    }
  }
}
