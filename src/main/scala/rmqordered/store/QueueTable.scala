package rmqordered.store

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey

/**
 * The consume queues of all topics. Changes under the store's append lock, lookups by any thread.
 * Topic names have passed `Names.topicProblem`: they become folder names.
 */
final class QueueTable(directory: DataDirectory, segmentBytes: Int) {
  private val queues = new ConcurrentHashMap[QueueKey, ConsumeQueue]()

  def get(key: QueueKey): Option[ConsumeQueue] = Option(queues.get(key))

  def getOrCreate(key: QueueKey): ConsumeQueue = queues.computeIfAbsent(
    key,
    _ => {
      val folder = directory.consumeQueues.resolve(key.topic).resolve(key.queueId.toString)
      new ConsumeQueue(directory.files, folder, segmentBytes)
    }
  )

  /** Where every queue begins and ends. */
  def positions: Vector[QueuePosition] =
    queues.asScala.iterator.map { case (key, queue) =>
      QueuePosition(key, queue.minOffset, queue.nextOffset)
    }.toVector

  /** Makes the units below these positions durable; queues deleted meanwhile need nothing. */
  def flush(positions: Iterable[QueuePosition]): Unit =
    positions.foreach(position => get(position.key).foreach(_.flush(position.max)))

  /** Gives up what points below the log; gives the files not needed any more. */
  def retire(logMin: Long): Vector[MappedSegment] =
    queues.values().asScala.flatMap(_.retire(logMin)).toVector

  def removeTopic(topic: String): Unit = {
    queues.keySet().removeIf(_.topic == topic)
    directory.files.deleteTree(directory.consumeQueues.resolve(topic))
  }

  /** Forgets everything, files too, so that it can be made again from the log. */
  def clear(): Unit = {
    queues.clear()
    directory.files.deleteTree(directory.consumeQueues)
  }

  /**
   * Removes the folders of topics that have no queue: left by a crash while a topic was deleted.
   */
  def removeStrangers(): Unit = {
    val known = queues.keySet().asScala.map(_.topic).toSet
    directory.files
      .list(directory.consumeQueues)
      .filterNot(known)
      .foreach(name => directory.files.deleteTree(directory.consumeQueues.resolve(name)))
  }
}
