package rmqordered.dedup

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/**
 * The last stamp of each stream, which can be pictured while it changes: from `freeze` on, what a
 * change replaces is kept until the picture is made. So freezing takes no time, however many
 * streams there are, and the picture is made without a lock.
 *
 * Thread-safety: changes and `freeze` by one thread at a time (the store's append lock); `get`,
 * `size` and one picture at a time by any thread.
 */
final class StreamTable {
  private val current = new ConcurrentHashMap[StreamKey, LastStamp]()
  // What was there before the changes since the last `freeze`; nothing for a new stream.
  @volatile private var replaced: Option[ConcurrentHashMap[StreamKey, Option[LastStamp]]] = None

  def get(key: StreamKey): Option[LastStamp] = Option(current.get(key))

  def size: Int = current.size()

  def put(key: StreamKey, last: LastStamp): Unit = {
    keep(key)
    val _ = current.put(key, last)
  }

  def removeIf(isGone: (StreamKey, LastStamp) => Boolean): Unit = {
    val entries = current.entrySet().iterator()
    while (entries.hasNext) {
      val entry = entries.next()
      if (isGone(entry.getKey, entry.getValue)) {
        keep(entry.getKey)
        entries.remove()
      }
    }
  }

  def clear(): Unit = removeIf((_, _) => true)

  // Always before the change itself: whoever sees the change finds what was there before.
  private def keep(key: StreamKey): Unit = replaced.foreach { before =>
    val _ = before.putIfAbsent(key, get(key))
  }

  /**
   * Everything as it is now, once the result is called: once, and before the next `freeze`, which
   * otherwise takes its place.
   */
  def freeze(): () => Vector[(StreamKey, LastStamp)] = {
    val before = new ConcurrentHashMap[StreamKey, Option[LastStamp]]()
    replaced = Some(before)
    () => picture(before)
  }

  private def picture(
      before: ConcurrentHashMap[StreamKey, Option[LastStamp]]
  ): Vector[(StreamKey, LastStamp)] = {
    if (!replaced.exists(_ eq before))
      throw new IllegalStateException("The picture was made already, or a later one was begun.")
    val seen = Vector.newBuilder[(StreamKey, LastStamp)]
    current.forEach((key, last) => seen += key -> last)
    replaced = None
    // A change under way may still add to `before`. It was not seen above, so one look is enough;
    // with two, its stream could be found both unchanged and changed.
    val kept = before.asScala.toMap
    val unchanged = seen.result().filterNot { case (key, _) => kept.contains(key) }
    unchanged ++ kept.iterator.flatMap { case (key, last) => last.map(key -> _) }
  }
}
