package rmqordered.net

import java.io.File
import javax.net.ssl.SSLContext

import io.netty.handler.ssl.{ClientAuth, SslContext, SslContextBuilder, SslProvider}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import rmqordered.config.{BrokerConfig, ConfigError, Settings, TlsMode}

/**
 * What connections may begin with: plain frames, TLS, or both.
 *
 * Certificates come from files and nowhere else. A broker that made up its own would look safe and
 * be open to everybody in the middle.
 */
sealed trait TlsSetup

object TlsSetup {
  case object PlainOnly extends TlsSetup

  /** @param allowsPlain whether those who do not speak TLS are served too */
  final case class WithTls(context: SslContext, allowsPlain: Boolean) extends TlsSetup

  /** @throws ConfigError when TLS is wanted and its files are missing or useless */
  def of(config: BrokerConfig): TlsSetup = config(Settings.tlsMode) match {
    case TlsMode.Disabled => PlainOnly
    case TlsMode.Permissive => WithTls(context(config), allowsPlain = true)
    case TlsMode.Enforcing => WithTls(context(config), allowsPlain = false)
  }

  private def context(config: BrokerConfig): SslContext = {
    val certificate = file("tlsCertPath", config(Settings.tlsCertPath))
    val key = file("tlsKeyPath", config(Settings.tlsKeyPath))
    val clientCa =
      Some(config(Settings.tlsClientCaPath)).filter(_.nonEmpty).map(file("tlsClientCaPath", _))
    try {
      // Java's own implementation: the jars beside this one hold no native one.
      val builder = SslContextBuilder.forServer(certificate, key).sslProvider(SslProvider.JDK)
      builder.ciphers(ciphers(config(Settings.tlsCiphers)).asJava)
      clientCa.foreach(ca => builder.trustManager(ca).clientAuth(ClientAuth.REQUIRE))
      builder.build()
    } catch {
      // Netty throws all kinds of things at a bad file; none of them says more than its message.
      case error: ConfigError => throw error
      case NonFatal(error) =>
        throw new ConfigError(
          s"TLS cannot be set up with $certificate and $key (PEM, the key in PKCS#8): " +
            s"${error.getMessage}."
        )
    }
  }

  /**
   * Java still allows ciphers whose connections can be read by whoever records them and gets the
   * broker's key later. None of them is used unless an operator names it.
   */
  private def ciphers(wanted: Seq[String]): Seq[String] = {
    val parameters = SSLContext.getDefault.getSupportedSSLParameters
    wanted.find(name => !parameters.getCipherSuites.contains(name)).foreach { name =>
      throw new ConfigError(
        s"Setting tlsCiphers names $name, which this Java does not know; it knows " +
          s"${parameters.getCipherSuites.filter(hasForwardSecrecy).mkString(", ")}."
      )
    }
    if (wanted.nonEmpty) wanted
    else
      SSLContext.getDefault.getDefaultSSLParameters.getCipherSuites.toSeq.filter(hasForwardSecrecy)
  }

  // Ciphers of TLS 1.3 have no key exchange in their names; all of its exchanges are good.
  private def hasForwardSecrecy(cipher: String): Boolean =
    Seq("TLS_AES_", "TLS_CHACHA20_", "TLS_ECDHE_", "TLS_DHE_").exists(cipher.startsWith)

  private def file(setting: String, path: String): File = {
    if (path.isEmpty)
      throw new ConfigError(
        s"TLS needs files: setting $setting is empty. Name one, or set tlsMode=disabled."
      )
    val found = new File(path)
    if (!found.canRead)
      throw new ConfigError(s"Setting $setting names $path, which cannot be read.")
    found
  }
}
