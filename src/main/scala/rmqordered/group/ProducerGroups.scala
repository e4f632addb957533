package rmqordered.group

import scala.collection.mutable

import rmqordered.model.ClientIdentity

/** Which connections belong to which producer group. Thread-safe; forgets with the connection. */
final class ProducerGroups[C] {
  private val groups = mutable.HashMap.empty[String, mutable.LinkedHashMap[C, ClientIdentity]]

  def register(channel: C, identity: ClientIdentity, group: String): Unit = synchronized {
    groups.getOrElseUpdate(group, mutable.LinkedHashMap.empty).update(channel, identity)
  }

  def unregister(channel: C, group: String): Unit = synchronized {
    groups.get(group).foreach { members =>
      members.remove(channel)
      if (members.isEmpty) groups.remove(group)
    }
  }

  def disconnect(channel: C): Unit = synchronized {
    groups.keys.toVector.foreach(group => unregister(channel, group))
  }

  def members(group: String): Vector[(C, ClientIdentity)] = synchronized {
    groups.get(group).fold(Vector.empty[(C, ClientIdentity)])(_.toVector)
  }
}
