package rmqordered.config

/** The settings that say who may use the broker, and whether others can listen. */
trait SecuritySettings {
  val aclFile: Setting[String] =
    Setting.text(
      "aclFile",
      "",
      "File with users and their permissions, as conf/acl.conf; empty: everybody may do everything."
    )
  val aclStrict: Setting[Boolean] =
    Setting.flag(
      "aclStrict",
      false,
      "Whether users sign strictly about whom aclFile does not say it: their copied requests are " +
        "refused, but Apache's clients cannot sign so."
    )
  val aclStrictWindowMs: Setting[Int] =
    Setting.int(
      "aclStrictWindowMs",
      30000,
      1000 to 3600000,
      "Milliseconds that a strictly signed request may be old; clocks must agree so far."
    )
  val aclStrictSessions: Setting[Int] =
    Setting.int(
      "aclStrictSessions",
      20000,
      2 to 1000000,
      "Clients that sign strictly within aclStrictWindowMs, about 700 bytes each; half of them of " +
        "one user."
    )
  val aclStrictAddresses: Setting[Vector[String]] =
    Setting.list(
      "aclStrictAddresses",
      "HOST:PORT",
      "Further addresses, with commas between, at which clients that sign strictly know this " +
        "broker."
    )(address => address.matches("[^\\s,:]+:\\d{1,5}|\\[[0-9a-fA-F:.]+\\]:\\d{1,5}"))
  val tlsMode: Setting[TlsMode] =
    Setting.choice[TlsMode](
      "tlsMode",
      TlsMode.Disabled,
      "TLS on the same port. disabled: plain only; permissive: both; enforcing: TLS only."
    )(
      "disabled" -> TlsMode.Disabled,
      "permissive" -> TlsMode.Permissive,
      "enforcing" -> TlsMode.Enforcing
    )
  val tlsCertPath: Setting[String] =
    Setting.text(
      "tlsCertPath",
      "",
      "PEM file with the broker's certificate and those that signed it."
    )
  val tlsKeyPath: Setting[String] =
    Setting.text("tlsKeyPath", "", "PEM file with the broker's private key, in PKCS#8.")
  val tlsClientCaPath: Setting[String] =
    Setting.text(
      "tlsClientCaPath",
      "",
      "PEM file with the authorities whose clients are let in; empty: no client certificate is " +
        "asked for."
    )

  val tlsCiphers: Setting[Vector[String]] =
    Setting.list(
      "tlsCiphers",
      "CIPHER",
      "Ciphers of TLS by Java's names, with commas between; empty: all that Java allows and that " +
        "have forward secrecy."
    )(_.matches("[A-Z0-9_]+"))

  protected def security: Seq[Setting[_]] = Seq(
    aclFile,
    aclStrict,
    aclStrictWindowMs,
    aclStrictSessions,
    aclStrictAddresses,
    tlsMode,
    tlsCertPath,
    tlsKeyPath,
    tlsClientCaPath,
    tlsCiphers
  )
}
