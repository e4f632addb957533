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

  /** Whether every message of the topic is wanted. */
  def isEverything: Boolean = isTagType && TagFilter.tagsOf(expression).isEmpty
}

object Subscription {
  val TagType = "TAG"
  val SqlType = "SQL92"
  val All = "*"

  /**
   * Characters of an expression, be it tags or SQL. It comes with every pull; a parsed one takes
   * about twenty times the memory of its text, and is kept.
   */
  val MaxLength = 16384
}

/** What lets a message through to a consumer: by its tag, and if need be by its properties. */
trait MessageFilter {

  /** Whether nothing is left out: then nothing is looked at either. */
  def isEverything: Boolean = false

  /** Judged by the queue's index alone. */
  def matches(tagsCode: Long): Boolean

  /** Whether a message that passed `matches` must be looked into as well. */
  def readsProperties: Boolean

  /** The only properties that `matchesProperties` asks for. */
  def propertyNames: Set[String]

  def matchesProperties(properties: Map[String, String]): Boolean
}

/**
 * The broker's half of RocketMQ's tag filter: it compares hash codes only, the consumer compares
 * the strings again. Messages without a tag have code 0.
 */
sealed trait TagFilter extends MessageFilter {
  override def readsProperties: Boolean = false

  override def propertyNames: Set[String] = Set.empty

  override def matchesProperties(properties: Map[String, String]): Boolean = true
}

object TagFilter {
  case object Everything extends TagFilter {
    override def isEverything: Boolean = true

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
