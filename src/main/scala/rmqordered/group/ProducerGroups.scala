package rmqordered.group

import scala.collection.mutable

import rmqordered.config.LimitSettings
import rmqordered.model.ClientIdentity
import rmqordered.util.{Cost, Owner, RememberedTable}

/**
 * Which connections belong to which producer group. Thread-safe; forgets with the connection. What
 * it takes is counted, for the connection and its user.
 */
final class ProducerGroups[C](
    memory: RememberedTable = new RememberedTable("producers", LimitSettings.default.producerBytes)
) {
  import ProducerGroups._

  private val groups = mutable.HashMap.empty[String, mutable.LinkedHashMap[C, Producer]]

  /** @throws rmqordered.util.TableFull when no more can be remembered */
  def register(
      channel: C,
      identity: ClientIdentity,
      group: String,
      user: Seq[Owner] = Nil
  ): Unit = synchronized {
    val known = groups.get(group).flatMap(_.get(channel))
    if (!known.exists(_.identity == identity)) {
      val bytes = RememberedTable.EntryBytes + RememberedTable.text(group) +
        RememberedTable.text(identity.clientId)
      val cost = Cost(bytes, Owner.connection(channel) +: user)
      memory.replace(known.fold(Cost.none)(_.cost), cost)
      groups
        .getOrElseUpdate(group, mutable.LinkedHashMap.empty)
        .update(channel, Producer(identity, cost))
    }
  }

  def unregister(channel: C, group: String): Unit = synchronized {
    groups.get(group).foreach { members =>
      members.remove(channel).foreach(gone => memory.give(gone.cost))
      if (members.isEmpty) groups.remove(group)
    }
  }

  def disconnect(channel: C): Unit = synchronized {
    groups.keys.toVector.foreach(group => unregister(channel, group))
  }

  def members(group: String): Vector[(C, ClientIdentity)] = synchronized {
    groups.get(group).fold(Vector.empty[(C, ClientIdentity)])(_.toVector.map { case (c, p) =>
      c -> p.identity
    })
  }
}

object ProducerGroups {
  private final case class Producer(identity: ClientIdentity, cost: Cost)
}
