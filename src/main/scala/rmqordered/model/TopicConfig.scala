package rmqordered.model

/** Permission bits of a topic: 4 read, 2 write, 1 inherit (template for topics created on send). */
object Perm {
  val Inherit = 1
  val Write = 2
  val Read = 4
  val ReadWrite: Int = Read | Write

  def isReadable(perm: Int): Boolean = (perm & Read) != 0

  def isInherited(perm: Int): Boolean = (perm & Inherit) != 0
}

/**
 * A topic as RocketMQ describes it. Producers use `writeQueueNums`, consumers `readQueueNums`; they
 * differ on purpose while a topic is being resized.
 */
final case class TopicConfig(
    name: String,
    readQueueNums: Int,
    writeQueueNums: Int,
    perm: Int = Perm.ReadWrite,
    filterType: String = TopicConfig.SingleTag,
    sysFlag: Int = 0,
    order: Boolean = false,
    attributes: Map[String, String] = Map.empty
) {

  /** Queue ids below this may hold messages. */
  def queueNums: Int = Math.max(readQueueNums, writeQueueNums)
}

object TopicConfig {
  val SingleTag = "SINGLE_TAG"
  val MultiTag = "MULTI_TAG"
}
