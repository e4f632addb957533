package rmqordered.model

/** What a consumer group wants from one topic, as its heartbeat (or a pull) says. */
final case class Subscription(
    topic: String,
    expression: String,
    expressionType: String,
    subVersion: Long,
    tags: Seq[String] = Nil
) {
  def isTagType: Boolean =
    expressionType.isEmpty || expressionType == Subscription.TagType

  def filter: TagFilter = TagFilter.parse(expression)
}

object Subscription {
  val TagType = "TAG"
  val All = "*"
}

/**
 * The broker's half of RocketMQ's tag filter: it compares hash codes only, the consumer compares
 * the strings again. Messages without a tag have code 0.
 */
sealed trait TagFilter {
  def matches(tagsCode: Long): Boolean
}

object TagFilter {
  case object Everything extends TagFilter {
    override def matches(tagsCode: Long): Boolean = true
  }

  final case class OneOf(codes: Set[Long]) extends TagFilter {
    override def matches(tagsCode: Long): Boolean = codes.contains(tagsCode)
  }

  /** Parses `A || B`; `*` and nothing mean everything. */
  def parse(expression: String): TagFilter = {
    val tags = tagsOf(expression)
    if (tags.isEmpty) Everything else OneOf(tags.map(tag => tagsCode(tag)).toSet)
  }

  def tagsOf(expression: String): Seq[String] =
    if (expression == null || expression.isBlank || expression == Subscription.All) Nil
    else expression.split("\\|\\|").toSeq.map(_.trim).filter(_.nonEmpty)

  /** Java's String.hashCode, sign-extended; 0 without a tag (RocketMQ tagsString2tagsCode). */
  def tagsCode(tags: String): Long = if (tags.isEmpty) 0L else tags.hashCode.toLong
}
