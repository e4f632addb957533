package rmqordered.group

import scala.collection.mutable

import rmqordered.config.LimitSettings
import rmqordered.model.{ClientIdentity, ConsumeMode, Subscription}
import rmqordered.util.{Clock, Cost, Owner, RememberedTable, TableFull}

/** One member of a group: who it is, and the connection it speaks on. */
final case class Member[C](
    channel: C,
    identity: ClientIdentity,
    lastHeartbeat: Long,
    cost: Cost = Cost.none
)

/**
 * What a consumer's heartbeat says about one group; no subscriptions means: as before.
 *
 * @param fingerprint
 *   stands for the subscriptions in heartbeats of version 2; 0 in those of version 1
 */
final case class Registration(
    group: String,
    mode: ConsumeMode,
    subscriptions: Option[Seq[Subscription]],
    fingerprint: Int = 0
)

/** A group at one moment. */
final case class GroupView[C](
    mode: ConsumeMode,
    members: Vector[Member[C]],
    subscriptions: Map[String, Subscription]
)

/** A group whose members have to look at the membership again. */
final case class MembershipChange[C](group: String, mode: ConsumeMode, members: Vector[C])

/**
 * Who is alive in which consumer group, by connection, as heartbeats say.
 *
 * The last heartbeat of any member replaces the group's subscriptions, newer versions win: RocketMQ
 * expects all members to subscribe alike. Nothing here survives a restart; clients register again.
 *
 * What members and their subscriptions take is counted for their connection and its user, until the
 * next heartbeat of the group replaces them.
 *
 * Thread-safe: one lock, never held while anything is sent. `C` is a connection, compared by
 * identity.
 */
final class ConsumerGroups[C](
    clock: Clock,
    expiryMs: Long,
    memory: RememberedTable = new RememberedTable("members", LimitSettings.default.consumerBytes)
) {
  private val groups = mutable.HashMap.empty[String, Group]

  private final class Group(var mode: ConsumeMode) {
    val members = mutable.LinkedHashMap.empty[C, Member[C]]
    var subscriptions: Map[String, Subscription] = Map.empty
    var fingerprint = 0
    var cost: Cost = Cost.none
  }

  /**
   * Takes a heartbeat; says who must be told, if the group changed by it.
   *
   * @throws rmqordered.util.TableFull
   *   when no more can be remembered; then nothing has changed
   */
  def register(
      channel: C,
      identity: ClientIdentity,
      registration: Registration,
      user: Seq[Owner] = Nil
  ): Option[MembershipChange[C]] = synchronized {
    val known = groups.get(registration.group)
    val owners = Owner.connection(channel) +: user
    val memberCost = costOf(registration.group, identity, owners)
    val newCost = registration.subscriptions.map(costOf(_, owners))
    val before = known.flatMap(_.members.get(channel)).fold(Cost.none)(_.cost)
    memory.replace(before, memberCost)
    try newCost.foreach(cost => memory.replace(known.fold(Cost.none)(_.cost), cost))
    catch {
      case full: TableFull =>
        memory.replace(memberCost, before)
        throw full
    }
    val group = groups.getOrElseUpdate(registration.group, new Group(registration.mode))
    newCost.foreach(cost => group.cost = cost)
    group.mode = registration.mode
    val isNew = !group.members.get(channel).exists(_.identity.clientId == identity.clientId)
    group.members(channel) = Member(channel, identity, clock.monotonicMillis(), memberCost)
    val topicsChanged = registration.subscriptions.exists(subscribe(group, _))
    // A fingerprint counts only once the subscriptions it stands for were here.
    if (registration.subscriptions.isDefined) group.fingerprint = registration.fingerprint
    Option.when(isNew || topicsChanged)(change(registration.group, group))
  }

  private def costOf(group: String, identity: ClientIdentity, owners: Seq[Owner]): Cost =
    Cost(
      2 * RememberedTable.EntryBytes + RememberedTable.text(group) +
        RememberedTable.text(identity.clientId),
      owners
    )

  private def costOf(subscriptions: Seq[Subscription], owners: Seq[Owner]): Cost = {
    val bytes = subscriptions.iterator.map { one =>
      2 * RememberedTable.EntryBytes +
        (Iterator(one.topic, one.expression, one.expressionType) ++ one.tags)
          .map(RememberedTable.text)
          .sum
    }.sum
    Cost(bytes, owners)
  }

  /** True when the set of topics changed; a new expression for the same topic is not a change. */
  private def subscribe(group: Group, wanted: Seq[Subscription]): Boolean = {
    val before = group.subscriptions
    group.subscriptions = wanted.map { subscription =>
      val newest = before.get(subscription.topic).filter(_.subVersion > subscription.subVersion)
      subscription.topic -> newest.getOrElse(subscription)
    }.toMap
    before.keySet != group.subscriptions.keySet
  }

  /** As whom a connection is a member of a group. */
  def memberOn(channel: C, group: String): Option[String] = synchronized {
    groups.get(group).flatMap(_.members.get(channel)).map(_.identity.clientId)
  }

  def unregister(channel: C, groupName: String): Option[MembershipChange[C]] = synchronized {
    groups.get(groupName).filter(_.members.contains(channel)).map(remove(groupName, _, channel))
  }

  /** A connection is gone: it leaves all its groups. */
  def disconnect(channel: C): Seq[MembershipChange[C]] = synchronized {
    val mine = groups.toSeq.filter { case (_, group) => group.members.contains(channel) }
    mine.map { case (name, group) => remove(name, group, channel) }
  }

  /** Connections whose heartbeat is overdue; the caller closes them, which disconnects them. */
  def expired(): Seq[C] = synchronized {
    val now = clock.monotonicMillis()
    groups.values
      .flatMap(_.members.values)
      .filter(member => now - member.lastHeartbeat > expiryMs)
      .map(_.channel)
      .toSeq
      .distinct
  }

  private def remove(name: String, group: Group, channel: C): MembershipChange[C] = {
    group.members.remove(channel).foreach(gone => memory.replace(gone.cost, Cost.none))
    val left = change(name, group)
    if (group.members.isEmpty) {
      groups.remove(name)
      memory.replace(group.cost, Cost.none)
    }
    left
  }

  private def change(name: String, group: Group): MembershipChange[C] =
    MembershipChange(name, group.mode, group.members.keys.toVector)

  def view(group: String): Option[GroupView[C]] = synchronized {
    groups.get(group).map(g => GroupView(g.mode, g.members.values.toVector, g.subscriptions))
  }

  def subscription(group: String, topic: String): Option[Subscription] = synchronized {
    groups.get(group).flatMap(_.subscriptions.get(topic))
  }

  def isBroadcasting(group: String): Boolean = synchronized {
    groups.get(group).exists(_.mode.isBroadcasting)
  }

  /** Whether the group's subscriptions are those of a fingerprint. */
  def hasFingerprint(group: String, fingerprint: Int): Boolean = synchronized {
    fingerprint != 0 && groups.get(group).exists(_.fingerprint == fingerprint)
  }

  def contains(group: String): Boolean = synchronized(groups.contains(group))

  def groupsOf(topic: String): Set[String] = synchronized {
    groups.collect { case (name, group) if group.subscriptions.contains(topic) => name }.toSet
  }
}
