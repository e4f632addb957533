package rmqordered.auth

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.Base64
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import rmqordered.protocol.RemotingCommand

/**
 * The strict signature: HMAC-SHA256, in base64, over the request's code, the names and values of
 * all header fields but the signature itself, and the body. Each part has its length before it, so
 * that no two requests have the same content. Three of the fields say when the request was made,
 * for which address, and as which one of its client; `StrictChecks` judges them.
 */
object StrictSignature {
  val SignatureField = "StrictSignature"
  val TimeField = "SignedAt"
  val AddressField = "SignedFor"
  val NonceField = "Nonce"

  /** What a client that signs strictly adds to a request. */
  val fields: Set[String] = Set(SignatureField, TimeField, AddressField, NonceField)

  private val Algorithm = "HmacSHA256"
  private val Label = "rmq-ordered-1"

  def isOn(command: RemotingCommand): Boolean = command.ext(SignatureField).exists(_.nonEmpty)

  def of(command: RemotingCommand, secret: Secret): String = {
    val mac = Mac.getInstance(Algorithm)
    mac.init(new SecretKeySpec(secret.bytes, Algorithm))
    def add(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      mac.update(s"$length:".getBytes(UTF_8))
      mac.update(bytes, offset, length)
    }
    def addText(text: String): Unit = {
      val bytes = text.getBytes(UTF_8)
      add(bytes, 0, bytes.length)
    }
    // Of a repeated name the last value counts: here as for the handlers.
    val signed = command.extFields.fold(Map.empty[String, String])(_.toSeq.toMap) - SignatureField
    Seq(Label, command.code.toString, signed.size.toString).foreach(addText)
    signed.toSeq.sortBy(_._1).foreach { case (name, value) =>
      addText(name)
      addText(value)
    }
    val body = command.body.toSlice
    add(body.bytes, body.offset, body.length)
    Base64.getEncoder.encodeToString(mac.doFinal())
  }

  /** Whether a request is signed with a secret. Takes equally long whether or not it is. */
  def isGood(command: RemotingCommand, secret: Secret): Boolean = {
    val found = command.ext(SignatureField).getOrElse("")
    MessageDigest.isEqual(of(command, secret).getBytes(UTF_8), found.getBytes(UTF_8))
  }
}
