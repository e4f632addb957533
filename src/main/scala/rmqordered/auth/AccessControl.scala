package rmqordered.auth

import java.net.InetAddress

import rmqordered.model.HostAddress
import rmqordered.protocol.RemotingCommand

/**
 * Why a request is not served, as a sentence.
 *
 * @param passes
 *   the same request, signed anew, may be served in a moment
 */
final case class Denial(sentence: String, passes: Boolean = false)

/**
 * Who may do what. What it knows of users never changes, hence it is safe for any thread.
 *
 * Fails closed: no user, an unknown one, a wrong signature, another address or a missing permission
 * all mean "no". An unknown user and a wrong signature are told in the same words and take the same
 * time, so that nobody can find out names by trying. A user who signs strictly is served when its
 * request is signed so, and not otherwise.
 */
final class AccessControl(users: Seq[User], strict: StrictChecks) {
  private val byName: Map[String, User] = users.map(user => user.name -> user).toMap
  private val nobody = new Secret("somebody has to be compared with")

  /** Who made a request, or why it does not count. */
  def authenticate(command: RemotingCommand, remote: HostAddress): Either[Denial, User] =
    command.ext(Signature.AccessKeyField).filter(_.nonEmpty) match {
      case None =>
        Left(Denial("The request is not signed, and this broker serves known users only."))
      case Some(name) =>
        val known = byName.get(name)
        val isStrict = StrictSignature.isOn(command)
        val isGood = isSignedWith(command, known.fold(nobody)(_.secret), isStrict)
        known.filter(_ => isGood) match {
          case None =>
            Left(Denial(s"User '${name.take(64)}' is not known or its signature is wrong."))
          case Some(user) if !user.mayComeFrom(remote.address) =>
            val host = InetAddress.getByAddress(remote.address).getHostAddress
            Left(Denial(s"User '${user.name}' may not come from $host."))
          case Some(user) if isStrict => strict.judge(user.name, command).map(_ => user)
          case Some(user) if user.isStrict =>
            Left(
              Denial(
                s"User '${user.name}' must sign strictly, and this request is signed as RocketMQ " +
                  "does: set strictSignature=true in the client."
              )
            )
          case Some(user) => Right(user)
        }
    }

  private def isSignedWith(command: RemotingCommand, secret: Secret, isStrict: Boolean): Boolean =
    if (isStrict) StrictSignature.isGood(command, secret) else Signature.isGood(command, secret)

  /** The first thing a user needs and does not have, as a sentence. */
  def authorize(user: User, needs: Seq[Need]): Either[Denial, Unit] =
    needs.find(need => !user.may(need)) match {
      case Some(need) =>
        Left(Denial(s"User '${user.name}' has no permission: $need is needed."))
      case None => Right(())
    }
}
