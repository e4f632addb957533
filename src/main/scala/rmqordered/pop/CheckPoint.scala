package rmqordered.pop

/** Names one pop of one queue: where it began and when. */
final case class CheckPointId(startOffset: Long, popTime: Long)

/**
 * Messages of one queue handed out together, and which of them are settled: acknowledged, or given
 * back to the group.
 *
 * @param settled
 *   bit i stands for the i-th offset
 * @param isChosen
 *   whether the consumer itself chose how long they are hidden, after it had seen them
 */
final case class CheckPoint(
    id: CheckPointId,
    invisibleMs: Long,
    offsets: Vector[Long],
    settled: Long = 0L,
    isChosen: Boolean = false
) {
  def visibleAt: Long = Times.after(id.popTime, invisibleMs)

  def pending: Vector[Long] = Bits.unset(offsets, settled)

  def isSettled: Boolean = settled == Bits.all(offsets.length)

  def settle(bits: Long): CheckPoint = copy(settled = settled | bits)
}

/**
 * What an orderly pop handed out: no further message of the queue goes out before all of these are
 * settled, by an acknowledgement or because their time is over.
 *
 * @param hidden
 *   offsets hidden until another time than the batch's own
 * @param counts
 *   how often offsets were handed out before
 * @param ahead
 *   offsets outside the batch, not below its first, that were acknowledged before
 * @param attemptId
 *   who asks again under this name gets the same messages again
 */
final case class OrderBatch(
    popTime: Long,
    invisibleMs: Long,
    offsets: Vector[Long],
    settled: Long = 0L,
    hidden: Map[Long, Long] = Map.empty,
    counts: Map[Long, Int] = Map.empty,
    ahead: Set[Long] = Set.empty,
    attemptId: Option[String] = None
) {
  def pending: Vector[Long] = Bits.unset(offsets, settled)

  def isSettled: Boolean = settled == Bits.all(offsets.length)

  def visibleAt(offset: Long): Long = hidden.getOrElse(offset, Times.after(popTime, invisibleMs))

  /** When the last message that is still out comes back, which frees the queue. */
  def freeAt: Long = pending.map(visibleAt).maxOption.getOrElse(Long.MinValue)

  /** Everything acknowledged from the first pending message on. */
  def acknowledged: Set[Long] = ahead ++ Bits.set(offsets, settled)
}

/** Sets of places in a short list, as the bits of a number. */
object Bits {

  /** More messages are never handed out at once. */
  val MaxCount = 32

  def all(count: Int): Long = (1L << count) - 1

  def of(offsets: Vector[Long], wanted: Iterable[Long]): Long =
    wanted.foldLeft(0L) { (bits, offset) =>
      val index = offsets.indexOf(offset)
      if (index < 0) bits else bits | (1L << index)
    }

  def set(offsets: Vector[Long], bits: Long): Vector[Long] =
    offsets.indices.collect { case i if (bits & (1L << i)) != 0 => offsets(i) }.toVector

  def unset(offsets: Vector[Long], bits: Long): Vector[Long] = set(offsets, ~bits)
}

/** Times that clients choose may be absurd; they must not come out negative. */
object Times {

  def after(time: Long, millis: Long): Long = {
    val sum = time + millis
    if (millis > 0 && sum < time) Long.MaxValue else sum
  }
}
