package rmqordered.net

import java.io.IOException

import scala.jdk.CollectionConverters._

import rmqordered.Proves._
import rmqordered.config.{BrokerConfig, ConfigError}
import rmqordered.protocol.RequestCode

class TlsSuite extends munit.FunSuite {
  import SocketFixture._

  private lazy val server = new TestCertificate("server")
  private lazy val stranger = new TestCertificate("stranger")
  private val code = RequestCode.GetBrokerClusterInfo

  private def tls(mode: String, more: (String, String)*): Seq[(String, String)] =
    Seq(
      "tlsMode" -> mode,
      "tlsCertPath" -> server.certificate.toString,
      "tlsKeyPath" -> server.key.toString
    ) ++ more

  test("permissive serves TLS and plain on one port") {
    withBroker(tls("permissive"): _*) { broker =>
      assertEquals(connectTls(broker, server.clientContext()).call(code).code, 0)
      assertEquals(connect(broker).call(code).code, 0)
    }
  }

  test("enforcing hangs up on plain clients and serves the others") {
    withBroker(tls("enforcing"): _*) { broker =>
      assert(connect(broker).isHungUpOn(code))
      assertEquals(connectTls(broker, server.clientContext()).call(code).code, 0)
    }
  }

  test("disabled hangs up on TLS and serves the others") {
    withBroker() { broker =>
      assert(connectTls(broker, server.clientContext()).isHungUpOn(code))
      assertEquals(connect(broker).call(code).code, 0)
    }
  }

  test("a client that trusts somebody else is not served, and does not disturb others") {
    withBroker(tls("enforcing"): _*) { broker =>
      intercept[IOException](connectTls(broker, stranger.clientContext()).call(code))
      assertEquals(connectTls(broker, server.clientContext()).call(code).code, 0)
    }
  }

  test("with a client authority only its clients are let in") {
    val client = new TestCertificate("client")
    withBroker(tls("enforcing", "tlsClientCaPath" -> client.certificate.toString): _*) { broker =>
      assertEquals(connectTls(broker, server.clientContext(Some(client))).call(code).code, 0)
      assert(connectTls(broker, server.clientContext()).isHungUpOn(code))
      assert(connectTls(broker, server.clientContext(Some(stranger))).isHungUpOn(code))
    }
  }

  test("TLS without usable files is a sentence, not a certificate made up") {
    def problem(settings: (String, String)*) =
      intercept[ConfigError](TlsSetup.of(BrokerConfig.of(settings.toMap))).getMessage
    assertEquals(
      problem("tlsMode" -> "permissive"),
      "TLS needs files: setting tlsCertPath is empty. Name one, or set tlsMode=disabled."
    )
    assert(problem(tls("enforcing", "tlsKeyPath" -> ""): _*).contains("tlsKeyPath is empty"))
    assert(problem(tls("enforcing", "tlsKeyPath" -> "/no/such"): _*).contains("cannot be read"))
    assert(problem(tls(
      "enforcing",
      "tlsKeyPath" -> server.certificate.toString
    ): _*).contains("PKCS#8"))
  }

  private def ciphers(more: (String, String)*): Seq[String] =
    TlsSetup.of(BrokerConfig.of(tls("enforcing", more: _*).toMap)) match {
      case TlsSetup.WithTls(context, _) => context.cipherSuites().asScala.toSeq
      case TlsSetup.PlainOnly => fail("no TLS")
    }

  test("whoever records a connection and gets the key later cannot read it".proves("tls-forward")) {
    val found = ciphers()
    assert(found.nonEmpty)
    val kinds = Seq("TLS_AES_", "TLS_CHACHA20_", "TLS_ECDHE_", "TLS_DHE_")
    assertEquals(found.filterNot(name => kinds.exists(name.startsWith)), Nil)
  }

  test("an operator may choose the ciphers, of those that there are") {
    val chosen = "TLS_AES_256_GCM_SHA384"
    assertEquals(ciphers("tlsCiphers" -> chosen), Seq(chosen))
    val problem = intercept[ConfigError](ciphers("tlsCiphers" -> "TLS_NONE")).getMessage
    assert(problem.contains("TLS_NONE, which this Java does not know"), problem)
  }
}
