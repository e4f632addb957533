package rmqordered.auth

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.Base64
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import rmqordered.protocol.{ExtFields, RemotingCommand}

/**
 * RocketMQ's request signature: HMAC-SHA1, in base64, over the values of all header fields but the
 * signature itself, in the order of their names, followed by the body.
 *
 * It proves who made a request, not when: whoever can listen can repeat it. Where others can
 * listen, TLS is needed as well.
 */
object Signature {
  val AccessKeyField = "AccessKey"
  val SignatureField = "Signature"
  private val Algorithm = "HmacSHA1"

  /**
   * What proves who made a request. It is meant for this broker alone: whoever else sees it can
   * make requests of its own from it, because the signature names neither code nor fields.
   */
  private val proofFields =
    Set(AccessKeyField, SignatureField, "SecurityToken") ++ StrictSignature.fields

  /** The fields without those that prove who sent them. */
  def stripped(fields: ExtFields): ExtFields =
    if (fields.toSeq.exists { case (name, _) => proofFields(name) })
      ExtFields(fields.toSeq.filterNot { case (name, _) => proofFields(name) }: _*)
    else fields

  def of(command: RemotingCommand, secret: Secret): String = {
    val mac = Mac.getInstance(Algorithm)
    mac.init(new SecretKeySpec(secret.bytes, Algorithm))
    // A map, because of a repeated name the last value counts: here as for the handlers.
    val fields = command.extFields.fold(Map.empty[String, String])(_.toSeq.toMap) - SignatureField
    fields.toSeq.sortBy(_._1).foreach { case (_, value) => mac.update(value.getBytes(UTF_8)) }
    val body = command.body.toSlice
    mac.update(body.bytes, body.offset, body.length)
    Base64.getEncoder.encodeToString(mac.doFinal())
  }

  /** Whether a request is signed with a secret. Takes equally long whether or not it is. */
  def isGood(command: RemotingCommand, secret: Secret): Boolean = {
    val found = command.ext(SignatureField).getOrElse("")
    MessageDigest.isEqual(of(command, secret).getBytes(UTF_8), found.getBytes(UTF_8))
  }
}

/** A shared secret. Shown to nobody, not even to the log. */
final class Secret(text: String) {
  private[auth] val bytes: Array[Byte] = text.getBytes(UTF_8)

  override def toString: String = "***"
}
