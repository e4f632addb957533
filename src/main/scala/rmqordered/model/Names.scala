package rmqordered.model

/**
 * RocketMQ's names: reserved topics, prefixes, and which topic and group names are legal (as
 * TopicValidator of RocketMQ 5.x judges them).
 *
 * The character rule is also what keeps a topic name from leaving the data directory: topics become
 * folder names, and a legal name holds neither a dot nor a slash. Nothing may touch a file for a
 * topic that has not passed `topicProblem`.
 */
object Names {
  val RetryPrefix = "%RETRY%"
  val DlqPrefix = "%DLQ%"

  /** The template from which topics are created on send. */
  val AutoCreateTopic = "TBW102"

  /** Where messages with a delay level wait, one queue per level. */
  val ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

  /** Where messages with a time of their own wait. */
  val TimerTopic = "rmq_sys_wheel_timer"

  /** The journal of what was popped and acknowledged. */
  val PopLogTopic = "rmq_sys_pop_log"

  /** Where clients report what became of their messages, if they are told to. */
  val TraceTopic = "RMQ_SYS_TRACE_TOPIC"
  val DefaultRegion = "DefaultRegion"

  /** The group of the producer that is inside of each of Apache's clients, consumers too. */
  val InnerProducerGroup = "CLIENT_INNER_PRODUCER"

  private val MaxTopicLength = 127
  private val MaxRetryOrDlqTopicLength = 255
  private val MaxTextLength = 512
  private val MaxGroupLength = 120
  private val SystemTopicPrefix = "rmq_sys_"

  private val notAllowedToSend = Set(
    ScheduleTopic,
    TimerTopic,
    PopLogTopic,
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT"
  )
  private val systemTopics =
    notAllowedToSend ++ Set(AutoCreateTopic, "BenchmarkTest", TraceTopic)

  def retryTopic(group: String): String = RetryPrefix + group

  /**
   * Where messages of a topic come again that a group popped in vain: RocketMQ's first spelling.
   */
  def popRetryTopic(group: String, topic: String): String = s"$RetryPrefix${group}_$topic"

  /** RocketMQ's second spelling, which cannot be mistaken. */
  def popRetryTopicV2(group: String, topic: String): String = s"$RetryPrefix$group+$topic"

  /** Whether a topic is one where a group's pops come again, if it is not another group's. */
  def isPopRetryOf(group: String, topic: String): Boolean =
    Seq("_", "+").exists(mark => topic.startsWith(RetryPrefix + group + mark))

  def isRetryTopic(topic: String): Boolean = topic.startsWith(RetryPrefix)

  def dlqTopic(group: String): String = DlqPrefix + group

  def groupOfRetryTopic(topic: String): Option[String] =
    Option.when(topic.startsWith(RetryPrefix))(topic.substring(RetryPrefix.length))

  def isSystemTopic(topic: String): Boolean =
    systemTopics.contains(topic) || topic.startsWith(SystemTopicPrefix)

  def isSendForbidden(topic: String): Boolean = notAllowedToSend.contains(topic)

  /** A sentence saying what is wrong with a topic name, or nothing. */
  def topicProblem(topic: String): Option[String] = {
    val isLong = topic.startsWith(RetryPrefix) || topic.startsWith(DlqPrefix)
    // The second spelling of a group's retry topic holds a plus; it cannot leave a folder either.
    val name = if (topic.startsWith(RetryPrefix)) topic.replaceFirst("\\+", "_") else topic
    problem("topic", name, if (isLong) MaxRetryOrDlqTopicLength else MaxTopicLength)
  }

  /** A sentence saying what is wrong with a consumer group name, or nothing. */
  def groupProblem(group: String): Option[String] = problem("group", group, MaxGroupLength)

  /**
   * A sentence saying what is wrong with any other name that clients make up, or nothing. Apache's
   * clients make ids of an address, an instance name and more: all are far below the length.
   */
  def textProblem(kind: String, text: String): Option[String] =
    if (text.length > MaxTextLength)
      Some(
        s"The specified $kind has ${text.length} characters, at most $MaxTextLength are allowed."
      )
    else if (text.exists(Character.isISOControl))
      Some(s"The specified $kind has control characters.")
    else None

  private def problem(kind: String, name: String, maxLength: Int): Option[String] =
    if (name.isBlank) Some(s"The specified $kind is blank.")
    else if (!name.forall(isLegal))
      Some(s"The specified $kind contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$$")
    else if (name.length > maxLength)
      Some(s"The specified $kind is longer than $kind max length $maxLength.")
    else None

  private def isLegal(char: Char): Boolean =
    (char >= 'a' && char <= 'z') || (char >= 'A' && char <= 'Z') || (char >= '0' && char <= '9') ||
      char == '%' || char == '|' || char == '_' || char == '-'
}
