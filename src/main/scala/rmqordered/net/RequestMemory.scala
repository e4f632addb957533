package rmqordered.net

import java.util
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import rmqordered.util.Clock

/**
 * What the requests of all connections together hold: frames that are coming in, and requests that
 * are not answered yet. One connection is limited by itself; many together would fill the memory
 * all the same.
 *
 * A frame of more than `FreeBytes` is read when there is room for it; until then its connection
 * waits, first come first served. Large frames and middling ones have rooms of their own, so that
 * clients that begin large ones and never end them hold up no ordinary request; who has taken
 * longest is given up when others wait. Small ones always come in; but when all room is taken,
 * whoever has requests waiting must wait for an answer before it sends more.
 *
 * Thread-safe; calls back without a lock held, on whatever thread made the room.
 */
final class RequestMemory(maxBytes: Long, clock: Clock) {
  import RequestMemory._

  private val held = new AtomicLong()
  private val middling = new Room(maxBytes / MiddlingPart)
  private val large = new Room(maxBytes / LargePart)
  @volatile private var someWait = false
  private val paused = ConcurrentHashMap.newKeySet[Runnable]()

  /** One room for frames that are coming in. Touched under this memory's lock. */
  private final class Room(val bytes: Long) {
    var taken = 0L
    val coming = new util.LinkedHashSet[Claim]()
    val waiting = new util.ArrayDeque[Claim]()

    // Alone, a frame of any size comes in: its own limit is another one.
    def fits(size: Long): Boolean =
      coming.isEmpty && held.get() < maxBytes ||
        taken + size <= bytes && held.get() + size <= maxBytes
  }

  /**
   * One connection's frame that is coming in.
   *
   * @param granted
   *   there is room now, after a wait
   * @param giveUp
   *   it took too long while others waited
   */
  final class Claim(granted: () => Unit, giveUp: () => Unit) {
    private[RequestMemory] var size = 0L
    private[RequestMemory] var room: Room = _
    private[RequestMemory] var since = 0L

    def begin(bytes: Int): Outcome =
      if (bytes <= FreeBytes) Outcome.Granted else RequestMemory.this.begin(this, bytes.toLong)

    /** It is complete and handed on, or lost with its connection. */
    def end(): Unit = if (room != null) RequestMemory.this.end(this)

    private[RequestMemory] def tellGranted(): Unit = granted()

    private[RequestMemory] def tellGivenUp(): Unit = giveUp()
  }

  def totalBytes: Long = held.get()

  def isFull: Boolean = held.get() >= maxBytes

  /** A request that was read and is not answered yet. */
  def hold(bytes: Long): Unit = { val _ = held.addAndGet(bytes) }

  def release(bytes: Long): Unit = {
    val left = held.addAndGet(-bytes)
    admit()
    if (left < maxBytes / ResumePart * (ResumePart - 1)) resumePaused()
  }

  /** Calls `resume`, once, when there is room again; perhaps at once. */
  def whenRoom(resume: Runnable): Unit = {
    paused.add(resume)
    if (!isFull) resumePaused()
  }

  def forget(resume: Runnable): Unit = { val _ = paused.remove(resume) }

  /** Gives up the frame that takes longest in each room where others wait, if it is too long. */
  def giveUpSlow(): Unit = {
    val now = clock.monotonicMillis()
    val slow = synchronized {
      Seq(middling, large).filterNot(_.waiting.isEmpty).flatMap { room =>
        val claims = room.coming.iterator()
        if (claims.hasNext) Some(claims.next()).filter(now - _.since >= SlowMs) else None
      }
    }
    slow.foreach(_.tellGivenUp())
  }

  private def begin(claim: Claim, size: Long): Outcome = synchronized {
    claim.size = size
    claim.room = if (size <= MiddlingBytes) middling else large
    if (claim.room.waiting.isEmpty && claim.room.fits(size)) {
      take(claim)
      Outcome.Granted
    } else if (claim.room.waiting.size() >= MaxWaiting) {
      claim.room = null
      Outcome.Refused
    } else {
      claim.room.waiting.addLast(claim)
      someWait = true
      // Room that was made before that was told to nobody.
      if ((claim.room.waiting.peekFirst() eq claim) && claim.room.fits(size)) {
        claim.room.waiting.pollFirst()
        take(claim)
        Outcome.Granted
      } else Outcome.Waits
    }
  }

  private def take(claim: Claim): Unit = {
    claim.since = clock.monotonicMillis()
    claim.room.coming.add(claim)
    claim.room.taken += claim.size
    hold(claim.size)
  }

  private def end(claim: Claim): Unit = {
    val freed = synchronized {
      val room = claim.room
      claim.room = null
      room.waiting.remove(claim)
      if (room.coming.remove(claim)) {
        room.taken -= claim.size
        claim.size
      } else 0L
    }
    release(freed)
  }

  private def admit(): Unit = if (someWait) {
    val admitted = new util.ArrayList[Claim]()
    synchronized {
      Seq(middling, large).foreach { room =>
        while (!room.waiting.isEmpty && room.fits(room.waiting.peekFirst().size)) {
          val claim = room.waiting.pollFirst()
          take(claim)
          admitted.add(claim)
        }
      }
      someWait = !middling.waiting.isEmpty || !large.waiting.isEmpty
    }
    admitted.forEach(_.tellGranted())
  }

  private def resumePaused(): Unit =
    paused.forEach(resume => if (paused.remove(resume)) resume.run())
}

object RequestMemory {
  sealed trait Outcome

  object Outcome {
    case object Granted extends Outcome
    case object Waits extends Outcome

    /** Too many wait already. */
    case object Refused extends Outcome
  }

  // Pulls, commits, heartbeats, small messages; times `maxConnections` it is not much.
  val FreeBytes: Int = 4 * 1024

  // Most batches are smaller.
  private val MiddlingBytes = 256 * 1024

  // The parts of the memory that frames may take before they are complete.
  private val MiddlingPart = 4
  private val LargePart = 2

  // Reading goes on when a quarter of the room is free again.
  private val ResumePart = 4

  // Each that waits has a network buffer.
  private val MaxWaiting = 256

  // The largest frame takes so long at 1.6 MB/s. Only while others wait.
  private val SlowMs = 10000L

  /** How often somebody that waits looks for those that are too slow. */
  val CheckMs: Long = 1000L
}
