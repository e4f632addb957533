package rmqordered.config

/** The settings that say who may use the broker, and whether others can listen. */
trait SecuritySettings {
  val aclFile: Setting[String] =
    Setting.text(
      "aclFile",
      "",
      "File with users and their permissions, as conf/acl.conf; empty: everybody may do everything."
    )
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
}
