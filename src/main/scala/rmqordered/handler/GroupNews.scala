package rmqordered.handler

import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.mutable

import rmqordered.group.ConsumerGroups
import rmqordered.protocol.{ExtFields, RequestCode}
import rmqordered.util.Clock

/**
 * The news that the members of a group have changed (40), for all of them, the newcomer included:
 * otherwise its first rebalance waits 20 s.
 *
 * However often a group changes, its news goes out at most once every `PauseMs`; the last change is
 * always told. A connection that has not taken one piece of news yet is sent no other one: what
 * comes meanwhile waits as a name of a group, once. So a crowd that joins, or clients that join
 * again and again and never read, cost the others next to nothing.
 *
 * Thread-safe: one lock, never held while anything is sent. A timer calls `sendDue`.
 */
final class GroupNews(consumers: ConsumerGroups[Connection], calls: ClientCalls, clock: Clock) {
  import GroupNews._

  private val toldAt = mutable.HashMap.empty[String, Long]
  private val due = mutable.LinkedHashSet.empty[String]
  // Connections with news that they have not taken, and the groups that they are to hear of next.
  private val untaken = mutable.HashMap.empty[Connection, mutable.LinkedHashSet[String]]

  /** A group's members are to be told, now or soon. */
  def changed(group: String): Unit = {
    val isNow = synchronized {
      val isQuiet = toldAt.get(group).forall(clock.monotonicMillis() - _ >= PauseMs)
      if (!isQuiet) due.add(group)
      isQuiet
    }
    if (isNow) tell(group)
  }

  /** Tells of the groups that were told of too recently when they changed. */
  def sendDue(): Unit = {
    val groups = synchronized {
      val now = clock.monotonicMillis()
      toldAt.filterInPlace((_, at) => now - at < PauseMs)
      val ready = due.filterNot(toldAt.contains).toVector
      due --= ready
      ready
    }
    groups.foreach(tell)
  }

  def disconnect(connection: Connection): Unit = synchronized { val _ = untaken.remove(connection) }

  private def tell(group: String): Unit = {
    synchronized { toldAt(group) = clock.monotonicMillis() }
    consumers.view(group).filterNot(_.mode.isBroadcasting).foreach { view =>
      view.members.foreach(member => tell(member.channel, group))
    }
  }

  private def tell(connection: Connection, group: String): Unit = {
    val isFree = synchronized {
      untaken.get(connection).fold {
        untaken(connection) = mutable.LinkedHashSet.empty
        true
      } { waiting =>
        waiting.add(group)
        false
      }
    }
    if (isFree) send(connection, group)
  }

  /**
   * Sends one piece of news, and the next ones as they are taken; a loop, for there may be many.
   */
  private def send(connection: Connection, first: String): Unit = {
    var group = Option(first)
    while (group.isDefined) {
      val isSettled = new AtomicBoolean(false)
      def goOn(): Unit =
        if (!isSettled.compareAndSet(false, true)) next(connection).foreach(send(connection, _))
      group.foreach(name => notify(connection, name)(() => goOn()))
      // Taken already, or else `goOn` goes on later.
      group = if (isSettled.compareAndSet(false, true)) None else next(connection)
    }
  }

  private def notify(connection: Connection, group: String)(taken: () => Unit): Unit =
    calls.tellThen(
      connection,
      RequestCode.NotifyConsumerIdsChanged,
      ExtFields("consumerGroup" -> group)
    )(taken)

  private def next(connection: Connection): Option[String] = synchronized {
    val group = untaken.get(connection).flatMap(_.headOption)
    group match {
      case Some(name) => untaken(connection).remove(name)
      case None => untaken.remove(connection)
    }
    group
  }
}

object GroupNews {
  val PauseMs = 100L
}
