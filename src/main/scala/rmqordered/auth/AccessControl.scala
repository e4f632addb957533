package rmqordered.auth

import java.net.InetAddress

import rmqordered.model.HostAddress
import rmqordered.protocol.RemotingCommand

/**
 * Who may do what. Immutable, hence safe for any thread.
 *
 * Fails closed: no user, an unknown one, a wrong signature, another address or a missing permission
 * all mean "no". An unknown user and a wrong signature are told in the same words and take the same
 * time, so that nobody can find out names by trying.
 */
final class AccessControl(users: Seq[User]) {
  private val byName: Map[String, User] = users.map(user => user.name -> user).toMap
  private val nobody = new Secret("somebody has to be compared with")

  /** Who made a request, or why it does not count. */
  def authenticate(command: RemotingCommand, remote: HostAddress): Either[String, User] =
    command.ext(Signature.AccessKeyField).filter(_.nonEmpty) match {
      case None => Left("The request is not signed, and this broker serves known users only.")
      case Some(name) =>
        val known = byName.get(name)
        val isGood = Signature.isGood(command, known.fold(nobody)(_.secret))
        known.filter(_ => isGood) match {
          case None => Left(s"User '${name.take(64)}' is not known or its signature is wrong.")
          case Some(user) if !user.mayComeFrom(remote.address) =>
            val host = InetAddress.getByAddress(remote.address).getHostAddress
            Left(s"User '${user.name}' may not come from $host.")
          case Some(user) => Right(user)
        }
    }

  /** The first thing a user needs and does not have, as a sentence. */
  def authorize(user: User, needs: Seq[Need]): Either[String, Unit] =
    needs.find(need => !user.may(need)) match {
      case Some(need) => Left(s"User '${user.name}' has no permission: $need is needed.")
      case None => Right(())
    }
}
