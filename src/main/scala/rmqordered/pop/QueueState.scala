package rmqordered.pop

import scala.collection.immutable.TreeSet

import rmqordered.offset.OffsetKey

/**
 * What a group's pops know about one queue. Immutable; every change is a `PopRecord`, so that the
 * state after a restart is the journal's records applied one after another.
 *
 * @param next
 *   the first offset that was not handed out yet, or, under orderly pops, that is not settled;
 *   nothing if the group never popped here
 */
final case class QueueState(
    key: OffsetKey,
    next: Option[Long] = None,
    checkPoints: Map[CheckPointId, CheckPoint] = Map.empty,
    order: Option[OrderBatch] = None,
    private val byTime: TreeSet[(Long, Long, Long)] = TreeSet.empty
) {

  def applied(record: PopRecord): QueueState = record match {
    case PopRecord.Popped(_, point, after) => put(point).copy(next = Some(after))
    case PopRecord.Settled(_, id, bits) => settle(id, bits)
    case PopRecord.Changed(_, id, bits, to) => settle(id, bits).put(to)
    case PopRecord.Moved(_, after) => copy(next = Some(after), order = None)
    case PopRecord.Ordered(_, after, batch) => copy(next = Some(after), order = batch)
    case PopRecord.Forgotten(_) => QueueState(key)
  }

  /** The check points whose time is over, the longest over first. */
  def due(now: Long): Iterator[CheckPoint] =
    byTime.iterator
      .takeWhile { case (visibleAt, _, _) => visibleAt <= now }
      .map { case (_, start, popTime) => checkPoints(CheckPointId(start, popTime)) }

  /** Messages handed out and not settled. */
  def inFlight: Int =
    checkPoints.valuesIterator.map(_.pending.length).sum + order.fold(0)(_.pending.length)

  /** When the oldest of them was handed out. */
  def oldestPopTime: Option[Long] =
    (checkPoints.keysIterator.map(_.popTime) ++ order.filterNot(
      _.isSettled
    ).map(_.popTime)).minOption

  /** Whether orderly pops have to wait, unless this is the attempt that got the messages. */
  def isBlocked(now: Long, attemptId: Option[String]): Boolean =
    order.exists { batch =>
      val isAgain = attemptId.isDefined && attemptId == batch.attemptId
      !isAgain && now < batch.freeAt
    }

  /**
   * A check point's id that is not taken: after a reset, or another time chosen at once, the same
   * messages go out twice within one millisecond. Handles only have to begin at or before the
   * first.
   */
  def freeId(start: Long, now: Long): CheckPointId =
    Iterator.iterate(start)(_ - 1).map(CheckPointId(_, now)).find(!checkPoints.contains(_)).get

  /** The same for one message that clients take for the first of its check point. */
  private def laterId(offset: Long, now: Long): CheckPointId =
    Iterator.iterate(now)(_ + 1).map(CheckPointId(offset, _)).find(!checkPoints.contains(_)).get

  /** The acknowledgement of messages, or nothing if the handle means none that is still out. */
  def ack(id: CheckPointId, offsets: Iterable[Long]): Option[PopRecord] =
    checkPoints.get(id).flatMap { point =>
      val bits = Bits.of(point.offsets, offsets) & ~point.settled
      Option.when(bits != 0)(PopRecord.Settled(key, id, bits))
    }

  /** Another time for one message, or nothing if the handle means none that is still out. */
  def change(
      id: CheckPointId,
      offset: Long,
      now: Long,
      invisibleMs: Long
  ): Option[PopRecord.Changed] =
    checkPoints.get(id).flatMap { point =>
      val bits = Bits.of(point.offsets, Seq(offset)) & ~point.settled
      val to = CheckPoint(laterId(offset, now), invisibleMs, Vector(offset), isChosen = true)
      Option.when(bits != 0)(PopRecord.Changed(key, id, bits, to))
    }

  /**
   * What an orderly pop hands out.
   *
   * @param offsets
   *   what it read from `next` on, without what was acknowledged before
   */
  def ordered(
      offsets: Vector[Long],
      now: Long,
      invisibleMs: Long,
      attemptId: Option[String]
  ): PopRecord.Ordered = {
    val start = offsets.head
    val isAgain = attemptId.isDefined && order.exists(_.attemptId == attemptId)
    val counts = order.fold(Map.empty[Long, Int]) { before =>
      offsets.filter(before.offsets.contains).map { offset =>
        offset -> (before.counts.getOrElse(offset, 0) + (if (isAgain) 0 else 1))
      }.toMap.filter(_._2 > 0)
    }
    val ahead = order.fold(Set.empty[Long])(_.acknowledged.filter(_ >= start))
    val batch =
      OrderBatch(now, invisibleMs, offsets, counts = counts, ahead = ahead, attemptId = attemptId)
    PopRecord.Ordered(key, start, Some(batch))
  }

  /** An orderly acknowledgement. */
  def ackOrdered(offset: Long, popTime: Long): OrderedAck =
    order match {
      case _ if next.exists(offset < _) => OrderedAck.Ignored
      case Some(batch) if batch.popTime != popTime => OrderedAck.Ignored
      case Some(batch) if !batch.offsets.contains(offset) => OrderedAck.Unknown
      case None => OrderedAck.Unknown
      case Some(batch) =>
        val settled = batch.copy(settled = batch.settled | Bits.of(batch.offsets, Seq(offset)))
        val done = settled.acknowledged
        val after = settled.pending.headOption.getOrElse(
          Iterator.iterate(batch.offsets.last + 1)(_ + 1).find(!done.contains(_)).get
        )
        val left = settled.copy(ahead = settled.ahead.filter(_ > after))
        val isOver = settled.isSettled && left.ahead.isEmpty
        OrderedAck.Settled(PopRecord.Ordered(key, after, Option.unless(isOver)(left)))
    }

  /** Another time for a message of an orderly pop. */
  def changeOrdered(
      offset: Long,
      popTime: Long,
      now: Long,
      invisibleMs: Long
  ): Option[PopRecord.Ordered] =
    for {
      batch <- order
      if batch.popTime == popTime && batch.pending.contains(offset)
    } yield {
      val hidden = batch.hidden.updated(offset, Times.after(now, invisibleMs))
      PopRecord.Ordered(key, next.getOrElse(offset), Some(batch.copy(hidden = hidden)))
    }

  /**
   * The same without messages from `end` on: a power failure took them, and others get their
   * offsets.
   */
  def clampedTo(end: Long): QueueState = {
    val kept = checkPoints.values.flatMap { point =>
      val lost = Bits.of(point.offsets, point.offsets.filter(_ >= end))
      Some(point.settle(lost)).filterNot(_.isSettled)
    }
    val cleared = QueueState(
      key,
      next.map(Math.min(_, end)),
      order = order.filter(_.offsets.forall(_ < end))
    )
    kept.foldLeft(cleared)(_.put(_))
  }

  /** Records that make this state of an empty one. */
  def records: Iterator[PopRecord] = {
    val after = next.getOrElse(0L)
    val points = checkPoints.valuesIterator.map(PopRecord.Popped(key, _, after))
    points ++ next.map(PopRecord.Ordered(key, _, order))
  }

  private def put(point: CheckPoint): QueueState = {
    val cleared = remove(point.id)
    if (point.isSettled) cleared
    else
      cleared.copy(
        checkPoints = cleared.checkPoints.updated(point.id, point),
        byTime = cleared.byTime + entry(point)
      )
  }

  private def remove(id: CheckPointId): QueueState =
    checkPoints.get(id).fold(this) { point =>
      copy(checkPoints = checkPoints - id, byTime = byTime - entry(point))
    }

  private def settle(id: CheckPointId, bits: Long): QueueState =
    checkPoints.get(id).fold(this) { point =>
      val settled = point.settle(bits)
      if (settled.isSettled) remove(id) else copy(checkPoints = checkPoints.updated(id, settled))
    }

  private def entry(point: CheckPoint): (Long, Long, Long) =
    (point.visibleAt, point.id.startOffset, point.id.popTime)
}

/** The answer to an orderly acknowledgement. */
sealed trait OrderedAck

object OrderedAck {
  final case class Settled(record: PopRecord.Ordered) extends OrderedAck

  /** Too late, or for an earlier pop: RocketMQ says nothing. */
  case object Ignored extends OrderedAck

  /** No such message is out. */
  case object Unknown extends OrderedAck
}
