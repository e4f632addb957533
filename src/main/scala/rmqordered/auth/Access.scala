package rmqordered.auth

/** What may be done with a resource. For a group SUB means to be a member of it. */
sealed abstract class Action(val name: String)

object Action {
  case object Pub extends Action("PUB")
  case object Sub extends Action("SUB")

  val all: Seq[Action] = Seq(Pub, Sub)
}

/** What permissions are given for. */
sealed abstract class ResourceKind(val name: String)

object ResourceKind {
  case object Topic extends ResourceKind("topic")
  case object Group extends ResourceKind("group")

  /** A namespace of the name server's key-value pairs. */
  case object Kv extends ResourceKind("kv")

  val all: Seq[ResourceKind] = Seq(Topic, Group, Kv)
}

final case class Resource(kind: ResourceKind, name: String) {
  override def toString: String = s"${kind.name}.$name"
}

/** What a request needs. */
sealed trait Need

object Need {

  /** Any one of the actions. */
  final case class On(resource: Resource, anyOf: Set[Action]) extends Need {
    override def toString: String =
      s"${anyOf.map(_.name).toSeq.sorted.mkString(" or ")} on $resource"
  }

  case object Admin extends Need {
    override def toString: String = "admin"
  }

  /** To be known as a producer of a group: a right to the group, or to publish anything at all. */
  final case class Producer(group: String) extends Need {
    override def toString: String = s"PUB or SUB on group.$group or PUB on some topic"
  }

  def pub(topic: String): Need = On(Resource(ResourceKind.Topic, topic), Set(Action.Pub))

  def sub(topic: String): Need = On(Resource(ResourceKind.Topic, topic), Set(Action.Sub))

  def either(topic: String): Need = On(Resource(ResourceKind.Topic, topic), Action.all.toSet)

  def member(group: String): Need = On(Resource(ResourceKind.Group, group), Set(Action.Sub))
}

/**
 * A user of the broker: what it may do, and from where.
 *
 * @param grants
 *   by pattern: a name, or a beginning followed by `*`; what no pattern covers is denied
 * @param isStrict
 *   only its strictly signed requests count
 * @param from
 *   where its requests may come from; empty: anywhere
 */
final case class User(
    name: String,
    secret: Secret,
    isAdmin: Boolean,
    isStrict: Boolean,
    from: Seq[AddressRange],
    grants: Map[Resource, Set[Action]]
) {
  def mayComeFrom(address: Array[Byte]): Boolean = from.isEmpty || from.exists(_.contains(address))

  def may(need: Need): Boolean = isAdmin || (need match {
    case Need.Admin => false
    case Need.Producer(group) =>
      publishesSomewhere || granted(Resource(ResourceKind.Group, group)).nonEmpty
    case Need.On(resource, anyOf) => granted(resource).intersect(anyOf).nonEmpty
  })

  private def publishesSomewhere: Boolean = grants.exists { case (resource, actions) =>
    resource.kind == ResourceKind.Topic && actions(Action.Pub)
  }

  /** The grant of the name itself, else of the longest beginning. */
  private def granted(resource: Resource): Set[Action] =
    grants.get(resource).filter(_ => !resource.name.endsWith("*")).getOrElse {
      (resource.name.length to 0 by -1).iterator
        .map(length => resource.copy(name = resource.name.take(length) + "*"))
        .collectFirst { case pattern if grants.contains(pattern) => grants(pattern) }
        .getOrElse(Set.empty)
    }
}
