package rmqordered.net

import java.io.{DataInputStream, IOException}
import java.net.Socket
import java.nio.file.{Files, Path}
import java.security.KeyStore
import java.util.Base64
import javax.net.ssl.{KeyManagerFactory, SSLContext, TrustManagerFactory}

import scala.jdk.CollectionConverters._
import scala.sys.process.Process

import rmqordered.EmbeddedBroker
import rmqordered.protocol.{Body, ExtFields, FrameCodec, RemotingCommand, SerializeType}
import rmqordered.store.StoreFixture

/** A broker behind a real socket, and blocking clients of it. */
object SocketFixture {
  private val TimeoutMs = 10000

  def withBroker[T](settings: (String, String)*)(body: EmbeddedBroker => T): T = {
    val folder = StoreFixture.temporaryFolder().toString
    val broker = EmbeddedBroker.start("127.0.0.1:0", folder, settings.toMap.asJava)
    try body(broker)
    finally broker.close()
  }

  final class Client(socket: Socket) {
    socket.setSoTimeout(TimeoutMs)
    private val in = new DataInputStream(socket.getInputStream)

    def send(
        code: Int,
        fields: Map[String, String],
        body: Array[Byte] = Array.emptyByteArray,
        opaque: Int = 1
    ): Unit = {
      val command =
        RemotingCommand(
          code,
          "PYTHON",
          479,
          opaque,
          0,
          None,
          Some(ExtFields(fields.toSeq: _*)),
          Body(body)
        )
      socket.getOutputStream.write(FrameCodec.encode(command, SerializeType.Json))
    }

    def receive(): RemotingCommand = {
      val frame = new Array[Byte](in.readInt())
      in.readFully(frame)
      FrameCodec.decode(frame)
    }

    def call(code: Int, fields: (String, String)*): RemotingCommand = {
      send(code, fields.toMap)
      receive()
    }

    /** Whether the broker hangs up on a request instead of answering it. */
    def isHungUpOn(code: Int): Boolean =
      try {
        call(code)
        false
      } catch { case _: IOException => true }

    def close(): Unit = socket.close()
  }

  def connect(broker: EmbeddedBroker): Client = new Client(new Socket(broker.host(), broker.port()))

  def connectTls(broker: EmbeddedBroker, context: SSLContext): Client =
    new Client(context.getSocketFactory.createSocket(broker.host(), broker.port()))
}

/** A self-signed certificate made by the JDK's own tool, as PEM files and for Java clients. */
final class TestCertificate(name: String) {
  private val folder = StoreFixture.temporaryFolder()
  private val password = "changeit"
  private val store: KeyStore = make()
  val certificate: Path = pem("CERTIFICATE", store.getCertificate(name).getEncoded)
  val key: Path = pem("PRIVATE KEY", store.getKey(name, password.toCharArray).getEncoded)

  private def make(): KeyStore = {
    val file = folder.resolve("keys.p12").toString
    val keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString
    val options = Seq(
      "-genkeypair",
      "-alias",
      name,
      "-keyalg",
      "EC",
      "-dname",
      s"CN=$name",
      "-ext",
      "san=ip:127.0.0.1"
    )
    val files = Seq("-keystore", file, "-storetype", "PKCS12", "-storepass", password)
    assert(Process(keytool +: (options ++ files)).! == 0, "keytool failed")
    val loaded = KeyStore.getInstance("PKCS12")
    val in = Files.newInputStream(Path.of(file))
    try loaded.load(in, password.toCharArray)
    finally in.close()
    loaded
  }

  private def pem(kind: String, content: Array[Byte]): Path = {
    val text = Base64.getMimeEncoder(64, "\n".getBytes).encodeToString(content)
    Files.writeString(
      folder.resolve(kind.replace(' ', '-')),
      s"-----BEGIN $kind-----\n$text\n-----END $kind-----\n"
    )
  }

  /** A client that trusts this certificate and shows another, if any. */
  def clientContext(shown: Option[TestCertificate] = None): SSLContext = {
    val trusted = KeyStore.getInstance("PKCS12")
    trusted.load(null, null)
    trusted.setCertificateEntry(name, store.getCertificate(name))
    val trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm)
    trust.init(trusted)
    val context = SSLContext.getInstance("TLS")
    context.init(shown.map(_.keyManagers).orNull, trust.getTrustManagers, null)
    context
  }

  private def keyManagers = {
    val factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm)
    factory.init(store, password.toCharArray)
    factory.getKeyManagers
  }
}
