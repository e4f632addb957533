package rmqordered.handler

import rmqordered.group.SubscriptionGroups
import rmqordered.model.{MessageFilter, Names, Perm, Subscription, TagFilter, TopicConfig}
import rmqordered.pop.Bits
import rmqordered.store.MessageStore
import rmqordered.util.Clock

/** A pop as it was asked for. */
final case class PopRequest(
    group: String,
    topic: TopicConfig,
    queueId: Int,
    maxMessages: Int,
    invisibleMs: Long,
    startsAtEnd: Boolean,
    isOrderly: Boolean,
    attemptId: Option[String],
    filter: MessageFilter,
    waitUntil: Long
) {
  def queueIds: Range =
    if (queueId < 0) 0 until topic.readQueueNums else queueId to queueId

  /** The group's retry topics for this one; an orderly group repeats in place. */
  def retryTopics: Seq[String] =
    if (isOrderly || Names.isRetryTopic(topic.name)) Nil
    else Seq(Names.popRetryTopic(group, topic.name), Names.popRetryTopicV2(group, topic.name))
}

/** Reads and checks the requests that pop, in the order of RocketMQ's PopMessageProcessor. */
final class PopRequests(
    store: MessageStore,
    groups: SubscriptionGroups,
    filters: Filters,
    clock: Clock
) {
  import PopRequests._

  def pop(call: Call): PopRequest = {
    val waitUntil = ensureInTime(call)
    val wanted = call.int("maxMsgNums")
    if (wanted > Bits.MaxCount)
      throw Failures.invalid(s"pop message's num is greater than ${Bits.MaxCount}, found $wanted")
    val invisibleMs = call.long("invisibleTime")
    ensureInvisibleTime(invisibleMs)
    asked(call, waitUntil).copy(
      maxMessages = Math.max(wanted, 1),
      invisibleMs = invisibleMs,
      startsAtEnd = call.optionalInt("initMode").contains(InitAtEnd)
    )
  }

  /** A request that only asks whether there is something to pop. */
  def notification(call: Call): PopRequest = asked(call, waitUntil(call))

  private def asked(call: Call, waitUntil: Long): PopRequest = {
    val topic = readable(call)
    val group = consuming(call)
    val attemptId = call.optional("attemptId")
    if (attemptId.exists(_.length > MaxAttemptId))
      throw Failures.invalid(s"attemptId has more than $MaxAttemptId characters.")
    PopRequest(
      group,
      topic,
      call.int("queueId"),
      maxMessages = 1,
      invisibleMs = 0L,
      startsAtEnd = false,
      call.optionalFlag("order").getOrElse(false),
      attemptId,
      filter(call, topic.name),
      waitUntil
    )
  }

  private def readable(call: Call): TopicConfig = {
    val name = call.text("topic")
    val topic = store.topics.get(name).getOrElse(throw Failures.topicNotExist(name))
    if (!Perm.isReadable(topic.perm))
      throw Failures.noPermission(s"the topic[$name] peeking message is forbidden")
    val queueId = call.int("queueId")
    if (queueId >= topic.readQueueNums)
      throw Failures.invalid(
        s"queueId[$queueId] is illegal, topic:[$name] " +
          s"topicConfig.readQueueNums:[${topic.readQueueNums}]"
      )
    topic
  }

  private def consuming(call: Call): String = {
    val group = call.text("consumerGroup")
    Names.groupProblem(group).foreach(problem => throw Failures.invalid(problem))
    val config = groups.getOrCreate(group).getOrElse(throw Failures.groupNotExist(group))
    if (!config.consumeEnable)
      throw Failures.noPermission(s"subscription group no permission, $group")
    group
  }

  private def filter(call: Call, topic: String): MessageFilter =
    call.optional("exp").fold[MessageFilter](TagFilter.Everything) { expression =>
      val kind = call.optional("expType").getOrElse(Subscription.TagType)
      filters.of(Subscription(topic, expression, kind, 0L))
    }

  /** RocketMQ answers at once, with nothing, what has been under way for too long. */
  private def ensureInTime(call: Call): Long = {
    val until = waitUntil(call)
    if (clock.wallMillis() - until > LateMs) throw PopReply.timeout
    until
  }

  private def waitUntil(call: Call): Long = {
    val now = clock.wallMillis()
    val born = call.optionalLong("bornTime").filter(_ != 0L).getOrElse(now)
    born + Math.min(call.long("pollTime"), MaxWaitMs)
  }
}

object PopRequests {
  private val InitAtEnd = 1
  private val MaxAttemptId = 1000
  private val LateMs = 500L

  // Clients ask for 15 to 20 s; whoever asks for more than two minutes gets two minutes.
  private val MaxWaitMs = 120000L

  // Longer than any consumer works on a message; a message hidden for years is as good as lost.
  private val MaxInvisibleMs = 3L * 24 * 60 * 60 * 1000

  /** RocketMQ takes whatever it is told; a time that is no time would lose messages. */
  def ensureInvisibleTime(millis: Long): Unit =
    if (millis < 1 || millis > MaxInvisibleMs)
      throw Failures.invalid(s"invisibleTime is 1 to $MaxInvisibleMs ms, found $millis")
}
