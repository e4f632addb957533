package rmqordered.config

/** Whether connections are encrypted. */
sealed trait TlsMode

object TlsMode {
  case object Disabled extends TlsMode

  /** Whoever speaks TLS gets TLS, whoever does not is served too. */
  case object Permissive extends TlsMode
  case object Enforcing extends TlsMode
}
