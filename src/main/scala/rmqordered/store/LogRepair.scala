package rmqordered.store

import java.nio.file.Path

import org.slf4j.LoggerFactory

import rmqordered.model.QueueKey
import rmqordered.protocol.StoredRecord
import rmqordered.util.Json

/**
 * Makes a store with a damaged commit log start again, on an operator's word: looks through the
 * whole log, copies what is damaged to `damaged/`, and writes down that it is lost. The log itself
 * stays as it is, but for a file that is missing in the middle, which becomes an empty one.
 *
 * What is lost keeps its offsets. The queues are rebuilt at the next start, with units that say so,
 * so that readers are told and nobody else gets those offsets. How far a queue went whose last
 * messages are lost is taken from its own units and from the checkpoint.
 *
 * Must not: give up a torn end, which recovery cuts off, nor anything that has a good seal.
 */
final class LogRepair(directory: DataDirectory, segmentBytes: Int) {
  import LogRepair._

  private val files = directory.files
  private val checkpoint = StoreUpkeep.readCheckpoint(directory)
  private val keys = checkpoint.flatMap(_.sealKey).toSet
  private val known = LostRanges.read(directory)

  /** Gives up what is damaged; gives the ranges that were not given up before. */
  def run(): Vector[LostRange] = {
    fillGaps()
    val segments = MappedSegment.list(files, directory.commitLog).map(open)
    // Behind the last good append, and behind the checkpoint, there is only a torn end.
    val end = (segments.flatMap(lastGood) ++ checkpoint.map(_.logOffset)).maxOption.getOrElse(0L)
    val forced =
      (segments.flatMap(lastForced) ++ checkpoint.map(_.logOffset)).maxOption.getOrElse(0L)
    val found = segments.flatMap(damage(_, end, forced))
    val fresh = found.filterNot(range => known.exists(_.from == range.from)).map(withEnds)
    if (fresh.nonEmpty) {
      fresh.foreach(keep(segments, _))
      LostRanges.write(directory, known ++ fresh)
      checkpoint.foreach { last =>
        directory.table(StoreUpkeep.CheckpointTable).replace(Json.bytes(last.withoutFiles.encode))
      }
    }
    fresh
  }

  private def open(base: Long): MappedSegment =
    CommitLog.openSegment(files, directory.commitLog, base, segmentBytes)

  /** A file that is missing in the middle becomes one without an append. */
  private def fillGaps(): Unit = {
    val bases = MappedSegment.list(files, directory.commitLog)
    bases.zip(bases.drop(1)).foreach { case (base, next) =>
      var expected = base + open(base).capacity
      while (expected < next) {
        val bytes = Math.min(segmentBytes.toLong, next - expected).toInt
        val made = CommitLog.openSegment(files, directory.commitLog, expected, bytes)
        logger.warn(
          "a file of the commit log is missing; an empty one takes its place file={}",
          made.file
        )
        expected += made.capacity
      }
    }
    if (bases.nonEmpty) files.forceFolder(directory.commitLog)
  }

  private def steps(segment: MappedSegment): Iterator[(Int, LogWalk.Step)] =
    Iterator.unfold(0) { at =>
      Option.when(at < segment.capacity) {
        val step = LogWalk.step(segment.bytes, at, segment.capacity, keys)
        segment.noteRead(step.next - at)
        ((at, step), step.next)
      }
    }

  private def lastGood(segment: MappedSegment): Option[Long] =
    steps(segment).collect { case (_, LogWalk.Good(_, next)) => segment.baseOffset + next }
      .foldLeft(Option.empty[Long])((_, next) => Some(next))

  private def lastForced(segment: MappedSegment): Option[Long] = {
    var forced = Option.empty[Long]
    AppendSeal.search(segment.bytes, 0, keys) { (start, mark) =>
      if (mark.behind >= 0)
        forced = (forced.toSeq :+ (segment.baseOffset + start - mark.behind)).maxOption
      true
    }
    forced
  }

  private def damage(segment: MappedSegment, end: Long, forced: Long): Vector[LostRange] =
    steps(segment).collect {
      case (at, LogWalk.Bad(next, reason)) if segment.baseOffset + at < forced =>
        val from = segment.baseOffset + at
        val to = Math.min(segment.baseOffset + next, Math.max(end, from))
        logger.warn(
          "damaged bytes are given up file={} bytes={}-{} problem={}",
          segment.file,
          at,
          to - segment.baseOffset,
          reason
        )
        LostRange(from, to, Map.empty)
    }.filter(range => range.to > range.from).toVector

  private def keep(segments: Vector[MappedSegment], range: LostRange): Unit =
    segments.lift(MappedSegment.indexAt(segments, range.from)).foreach { segment =>
      val bytes = new Array[Byte]((range.to - range.from).toInt)
      segment.bytes.get((range.from - segment.baseOffset).toInt, bytes)
      val folder = directory.path.resolve("damaged")
      files.createFolder(folder)
      files.write(folder.resolve(s"commitlog-${range.from}-${range.to}"), bytes)
      files.forceFolder(folder)
    }

  /** What the units of the queues say that was there. */
  private def withEnds(range: LostRange): LostRange = {
    val ends = for {
      topic <- files.list(directory.consumeQueues)
      queue <- files.list(directory.consumeQueues.resolve(topic)).filter(_.forall(_.isDigit))
      end <- endIn(directory.consumeQueues.resolve(topic).resolve(queue), range)
    } yield QueueKey(topic, queue.toInt) -> end
    range.copy(ends = ends.toMap)
  }

  private def endIn(folder: Path, range: LostRange): Option[Long] =
    MappedSegment.list(files, folder).flatMap { base =>
      val units =
        files.map(folder.resolve(MappedSegment.fileName(base)), ConsumeQueue.UnitBytes).bytes
      val count = units.capacity() / ConsumeQueue.UnitBytes
      (count - 1 to 0 by -1).find { i =>
        val place = units.getLong(i * ConsumeQueue.UnitBytes)
        val size = units.getInt(i * ConsumeQueue.UnitBytes + 8)
        place >= range.from && size >= StoredRecord.MinBytes && place + size <= range.to
      }.map(i => base / ConsumeQueue.UnitBytes + i + 1)
    }.maxOption
}

object LogRepair {
  private val logger = LoggerFactory.getLogger(classOf[LogRepair])
}
