package rmqordered.schedule

import java.nio.charset.StandardCharsets.UTF_8

import org.slf4j.LoggerFactory

import scala.collection.immutable.VectorMap

import rmqordered.model.{Names, QueueKey}
import rmqordered.protocol.{DecodedRecord, MessageProperties}
import rmqordered.store.{AppendOutcome, MessageStore}

/** Moves a message whose time has come from where it waited to where it was meant for. */
final class Redelivery(store: MessageStore) {
  import Redelivery._

  /**
   * Stores the message in its queue, without the properties that `spent` names. A message that can
   * never be delivered (its topic was deleted meanwhile) is given up, which counts as done.
   *
   * @param done
   *   told whether the message need not be delivered again; by this thread or another
   */
  def deliver(record: DecodedRecord, spent: Seq[String])(done: Boolean => Unit): Unit = {
    val properties = propertiesOf(record)
    target(properties) match {
      case None =>
        logger.warn("a delayed message is given up, its topic is gone at={}", record.position)
        done(true)
      case Some(queue) =>
        val kept = properties.removedAll(spent)
        val content =
          Refitting.again(record.content, kept.updated(MessageProperties.Wait, "false"), kept)
        val envelope = record.envelope.copy(topic = queue.topic, queueId = queue.queueId)
        store.append(envelope, Vector(content)) {
          case _: AppendOutcome.Stored => done(true)
          case refused: AppendOutcome.Impossible =>
            logger.warn(
              "a delayed message is given up reason={} at={}",
              refused.reason,
              record.position
            )
            done(true)
          case AppendOutcome.Unavailable(reason) =>
            logger.warn("a delayed message waits on reason={}", reason)
            done(false)
        }
    }
  }

  private def target(properties: VectorMap[String, String]): Option[QueueKey] =
    for {
      topic <- properties.get(MessageProperties.RealTopic)
      if Names.topicProblem(topic).isEmpty && store.topics.contains(topic)
      queueId <- properties.get(MessageProperties.RealQueueId).flatMap(_.toIntOption)
      if queueId >= 0
    } yield QueueKey(topic, queueId)
}

object Redelivery {
  private val logger = LoggerFactory.getLogger(classOf[Redelivery])

  def propertiesOf(record: DecodedRecord): VectorMap[String, String] =
    MessageProperties.decode(new String(record.content.properties.toArray, UTF_8))
}
