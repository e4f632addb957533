package rmqordered.handler

import rmqordered.model.Names
import rmqordered.pop.PopTable
import rmqordered.store.MessageStore
import rmqordered.util.{Clock, Json}

/** 19010, this project's own: what is handed out, per group and queue. */
final class PopStateHandler(store: MessageStore, pops: PopTable, clock: Clock) {

  def state(call: Call): Unit = {
    val (group, topic) = (call.optional("consumerGroup"), call.optional("topic"))
    val now = clock.wallMillis()
    val root = Json.obj().put("now", now)
    val queues = root.putArray("queues")
    pops.states
      .filter(state => state.next.isDefined)
      .filter(state => group.forall(_ == state.key.group))
      .filter(state => topic.forall(_ == state.key.queue.topic))
      .filter(state => isSeen(call, state.key.group, state.key.queue.topic))
      .toVector
      .sortBy(state => (state.key.group, state.key.queue.topic, state.key.queue.queueId))
      .foreach { state =>
        val end = store.maxOffset(state.key.queue)
        val node = queues
          .addObject()
          .put("group", state.key.group)
          .put("topic", state.key.queue.topic)
          .put("queueId", state.key.queue.queueId)
          .put("nextOffset", state.next.getOrElse(0L))
          .put("maxOffset", end)
          .put("inFlight", state.inFlight)
          .put("toRevive", state.due(now).map(_.pending.length).sum)
          .put("orderly", state.order.isDefined)
        state.oldestPopTime.foreach(time => node.put("oldestPopTime", time))
      }
    call.answer(Response.json(root))
  }

  private def isSeen(call: Call, group: String, topic: String): Boolean =
    call.maySee(topic) || Names.isPopRetryOf(group, topic)
}
