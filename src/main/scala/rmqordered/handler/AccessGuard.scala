package rmqordered.handler

import org.slf4j.LoggerFactory

import rmqordered.auth.AccessControl
import rmqordered.util.Printable

/** Stands before every handler. */
trait AccessGuard {

  /** @throws Refusal when the request may not be served */
  def ensureAllowed(call: Call): Unit
}

object AccessGuard {
  private val logger = LoggerFactory.getLogger(classOf[AccessGuard])

  /** Everybody may do everything. */
  val open: AccessGuard = _ => ()

  /** Every request, one-way ones and heartbeats too, is signed by a user who may make it. */
  def of(control: AccessControl, topicAt: Long => Option[String]): AccessGuard = { call =>
    val verdict = for {
      user <- control.authenticate(call.command, call.connection.remote)
      _ <- control.authorize(user, AccessNeeds.of(call, topicAt))
    } yield call.identify(user.name, topic => user.may(AccessNeeds.see(topic)))
    verdict.left.foreach { denial =>
      logger.info(
        "request denied code={} client={} reason={}",
        call.command.code,
        call.connection.remote,
        Printable(denial.sentence)
      )
      throw (if (denial.passes) Failures.notYet(denial.sentence)
             else Failures.noPermission(denial.sentence))
    }
  }
}
