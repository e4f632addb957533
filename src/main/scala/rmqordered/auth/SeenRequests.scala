package rmqordered.auth

import java.util

/** Whether a request is the first of its kind. */
sealed trait Freshness

object Freshness {
  case object First extends Freshness

  /** The very same request was here before. */
  case object Repeated extends Freshness

  /** So many later ones were here that nobody remembers whether this one was, too. */
  case object TooLate extends Freshness

  /** No room to remember another client. */
  case object NoRoom extends Freshness
}

/**
 * Which strictly signed requests were here, in bounded memory: of each session, a client's
 * connection to one address, the highest number and the `Window` numbers below it.
 *
 * A session is forgotten when its latest request is so old that a copy would be refused for its
 * age. Should the clock be set back after that, nothing as old begins a session. No user has more
 * than half of the sessions. Time is a parameter. Thread-safe.
 */
final class SeenRequests(maxSessions: Int, keepMs: Long) {
  import SeenRequests._

  private val sessions = new util.LinkedHashMap[(String, String), Session]()
  private val ofUser = new util.HashMap[String, Integer]()
  private var nextSweep = Long.MinValue
  // No session that was forgotten had a later request.
  private var forgottenUpTo = Long.MinValue

  private final class Session {
    var signedAt = 0L
    private var highest = -1L

    def isNew: Boolean = highest < 0
    private val bits = new util.BitSet(Window)

    def admit(number: Long): Freshness =
      if (number > highest) {
        if (number - highest >= Window) bits.clear()
        else (highest + 1 to number).foreach(passed => bits.clear((passed % Window).toInt))
        highest = number
        mark(number)
      } else if (highest - number >= Window) Freshness.TooLate
      else if (bits.get((number % Window).toInt)) Freshness.Repeated
      else mark(number)

    private def mark(number: Long): Freshness = {
      bits.set((number % Window).toInt)
      Freshness.First
    }
  }

  /** Notes a request whose signature is good. */
  def admit(user: String, session: String, number: Long, signedAt: Long, now: Long): Freshness =
    synchronized {
      val key = (user, session)
      if (!sessions.containsKey(key)) begin(key, now)
      sessions.get(key) match {
        case null => Freshness.NoRoom
        case known if known.isNew && signedAt <= forgottenUpTo => Freshness.TooLate
        case known =>
          known.signedAt = Math.max(known.signedAt, signedAt)
          known.admit(number)
      }
    }

  def size: Int = synchronized(sessions.size())

  private def begin(key: (String, String), now: Long): Unit = {
    if (now >= nextSweep || sessions.size() >= maxSessions) sweep(now)
    val mine = ofUser.getOrDefault(key._1, 0).toInt
    if (sessions.size() < maxSessions && mine < Math.max(maxSessions / 2, 1)) {
      sessions.put(key, new Session)
      val _ = ofUser.put(key._1, mine + 1)
    }
  }

  private def sweep(now: Long): Unit = {
    nextSweep = now + SweepMs
    sessions.entrySet().removeIf { entry =>
      val signedAt = entry.getValue.signedAt
      val isOver = signedAt < now - keepMs
      if (isOver) forgottenUpTo = Math.max(forgottenUpTo, signedAt)
      if (isOver) ofUser.merge(entry.getKey._1, -1, (a, b) => if (a + b == 0) null else a + b)
      isOver
    }
  }
}

object SeenRequests {

  /** How many requests of a session may overtake another one. */
  val Window = 4096

  // A sweep looks at all sessions.
  private val SweepMs = 1000L
}
