package rmqordered.auth

import java.net.InetAddress

import rmqordered.config.{BrokerConfig, Settings}
import rmqordered.protocol.RemotingCommand
import rmqordered.util.Clock

/**
 * Judges what a good strict signature says beside the request itself: when it was made, for which
 * address, and whether it is the first of its kind.
 *
 * What was seen is kept in memory. So after a start nothing counts that an earlier run may have
 * seen: no request of a client's clock that is ahead by more than `AheadMs` counts at any time, and
 * after a start none that was signed before `AheadMs` later.
 *
 * @param startsEmpty
 *   there was no earlier run
 * @param isOurs
 *   whether an address is one of this broker
 * @param addresses
 *   how the broker calls itself, for sentences
 */
final class StrictChecks(
    clock: Clock,
    windowMs: Long,
    maxSessions: Int,
    startsEmpty: Boolean,
    isOurs: String => Boolean,
    addresses: String
) {
  import StrictChecks._

  private val seen = new SeenRequests(maxSessions, windowMs)
  private val countsFrom = if (startsEmpty) Long.MinValue else clock.wallMillis() + AheadMs

  /** How many sessions are remembered. */
  def sessions: Int = seen.size

  def judge(user: String, command: RemotingCommand): Either[Denial, Unit] = {
    val now = clock.wallMillis()
    for {
      signedAt <- number(command, StrictSignature.TimeField)
      _ <- atOurAddress(user, command)
      _ <- inTime(user, signedAt, now)
      _ <- first(user, command, signedAt, now)
    } yield ()
  }

  private def atOurAddress(user: String, command: RemotingCommand): Either[Denial, Unit] = {
    val address = command.ext(StrictSignature.AddressField).getOrElse("")
    Either.cond(
      isOurs(address),
      (),
      Denial(
        s"User '$user' has signed for the address '${address.take(MaxShown)}', this broker is " +
          s"$addresses: use that address, or name the other one in the setting aclStrictAddresses."
      )
    )
  }

  private def inTime(user: String, signedAt: Long, now: Long): Either[Denial, Unit] =
    if (signedAt > now + AheadMs || signedAt < now - windowMs)
      Left(
        Denial(
          s"User '$user' has signed ${now - signedAt} ms ago by this broker's clock, -$AheadMs to " +
            s"$windowMs is expected: set the clocks, or this is a copy."
        )
      )
    else if (signedAt < countsFrom)
      Left(Denial("The broker has just started: sign and send the request again.", passes = true))
    else Right(())

  private def first(
      user: String,
      command: RemotingCommand,
      at: Long,
      now: Long
  ): Either[Denial, Unit] =
    for {
      nonce <- nonceOf(command)
      _ <- seen.admit(user, nonce._1, nonce._2, at, now) match {
        case Freshness.First => Right(())
        case Freshness.Repeated =>
          Left(Denial(s"User '$user' has sent this very request before: a copy is not served."))
        case Freshness.TooLate =>
          Left(
            Denial(
              "The request was overtaken by too many later ones: sign and send it again.",
              passes = true
            )
          )
        case Freshness.NoRoom =>
          Left(
            Denial("Too many clients sign strictly at once: come back later.", passes = true)
          )
      }
    } yield ()

  private def nonceOf(command: RemotingCommand): Either[Denial, (String, Long)] = {
    val parts = command.ext(StrictSignature.NonceField).getOrElse("").split("\\.", 2)
    val found = for {
      session <- parts.headOption.filter(SessionForm.matches)
      number <- parts.lift(1).filter(_.length <= MaxDigits).flatMap(_.toLongOption)
      if number >= 0
    } yield (session, number)
    found.toRight(unreadable(StrictSignature.NonceField, "SESSION.NUMBER"))
  }

  private def number(command: RemotingCommand, field: String): Either[Denial, Long] =
    command
      .ext(field)
      .filter(_.length <= MaxDigits)
      .flatMap(_.toLongOption)
      .toRight(unreadable(field, "milliseconds since 1970"))

  private def unreadable(field: String, expected: String): Denial =
    Denial(s"The field $field of a strict signature expects $expected.")
}

object StrictChecks {

  /**
   * @param address
   *   the one that clients are told, HOST:PORT
   * @param startsEmpty
   *   there was no earlier run
   */
  def of(
      config: BrokerConfig,
      clock: Clock,
      address: String,
      startsEmpty: Boolean
  ): StrictChecks = {
    val names = addresses(config, address)
    new StrictChecks(
      clock,
      config(Settings.aclStrictWindowMs).toLong,
      config(Settings.aclStrictSessions),
      startsEmpty,
      wanted => names.contains(wanted.toLowerCase),
      names.mkString(", ")
    )
  }

  /** All under which a client may know the broker without anybody in between. */
  private def addresses(config: BrokerConfig, address: String): Seq[String] = {
    val port = address.substring(address.lastIndexOf(':'))
    val host = config(Settings.listenHost)
    val bracketed = if (host.contains(':')) s"[$host]" else host
    val listened = InetAddress.getByName(host)
    val isLocal = listened.isLoopbackAddress || listened.isAnyLocalAddress
    val loopback = if (isLocal) Seq("localhost", "127.0.0.1", "[::1]") else Nil
    val all = (address +: (bracketed +: loopback).map(_ + port)) ++
      config(Settings.aclStrictAddresses)
    all.map(_.toLowerCase).distinct
  }

  /** How far a client's clock may be ahead. */
  val AheadMs = 2000L

  private val SessionForm = "[A-Za-z0-9_-]{16,64}".r
  private val MaxDigits = 18
  private val MaxShown = 128
}
