package rmqordered.handler

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8

import rmqordered.lease.{Lease, LostRun, StaleEpoch}
import rmqordered.model.QueueKey
import rmqordered.offset.OffsetsLost
import rmqordered.protocol.{
  ExtFields,
  MessageProperties,
  ProtocolError,
  ResponseCode,
  StoredRecord
}
import rmqordered.store.{AppendOutcome, DamagedQueue, LostMessage}
import rmqordered.util.TableFull

/** A request is refused for a reason the client should see. Carries no stack: it is no bug. */
final class Refusal(val code: Int, val remark: String, val fields: Option[ExtFields] = None)
    extends Exception(remark, null, false, false)

/**
 * The only place where something unwelcome becomes a response code. The sentences follow RocketMQ's
 * where tools and people know them.
 */
object Failures {

  def response(error: Throwable): Response = error match {
    case refusal: Refusal => Response(refusal.code, Some(refusal.remark), refusal.fields)
    case error: ProtocolError =>
      Response(
        ResponseCode.InvalidParameter,
        Some(s"The request cannot be read: ${error.getMessage}.")
      )
    case error: OffsetsLost => Response(ResponseCode.OffsetsLost, Some(error.getMessage))
    case error: DamagedQueue => Response(ResponseCode.SystemBusy, Some(error.getMessage))
    case error: LostMessage => Response(ResponseCode.SystemError, Some(error.getMessage))
    case full: TableFull => Response(ResponseCode.ServiceNotAvailable, Some(full.getMessage))
    case error: IOException =>
      Response(ResponseCode.SystemError, Some(s"${error.getClass.getName}: ${error.getMessage}"))
    case other =>
      Response(ResponseCode.SystemError, Some(s"${other.getClass.getName}: ${other.getMessage}"))
  }

  def unsupported(code: Int): Refusal =
    new Refusal(
      ResponseCode.RequestCodeNotSupported,
      s"Request code $code is not supported by this broker."
    )

  def unsupported(code: Int, what: String): Refusal =
    new Refusal(
      ResponseCode.RequestCodeNotSupported,
      s"Request code $code is not supported by this broker: $what."
    )

  def busy: Refusal =
    new Refusal(
      ResponseCode.SystemBusy,
      "[OVERLOAD]the broker's request queue is full, retry later"
    )

  /** The same request may be served a moment later. */
  def notYet(sentence: String): Refusal = new Refusal(ResponseCode.SystemBusy, sentence)

  def missing(field: String): Refusal =
    new Refusal(ResponseCode.InvalidParameter, s"The header field $field is missing.")

  def invalid(sentence: String): Refusal = new Refusal(ResponseCode.InvalidParameter, sentence)

  /** Refuses with the first of the problems that there is one. */
  def ensureNone(problems: Iterable[String]): Unit =
    problems.headOption.foreach(problem => throw invalid(problem))

  def tooMany(what: String, found: Int, most: Int): Refusal =
    invalid(s"The request names $found $what, at most $most are served; send several requests.")

  def notANumber(field: String, value: String): Refusal =
    invalid(s"The header field $field is not a number: '${value.take(40)}'.")

  def badBody(problem: String): Refusal = invalid(s"The request's body cannot be read: $problem.")

  def illegalMessage(sentence: String): Refusal = new Refusal(ResponseCode.MessageIllegal, sentence)

  /** What the store can never take. */
  def impossible(outcome: AppendOutcome.Impossible): Refusal = outcome match {
    case AppendOutcome.NoTopic(topic) => topicNotExist(topic)
    case other => illegalMessage(s"the message is illegal: ${other.reason}")
  }

  def propertiesTooLong(properties: Iterable[(String, String)]): Refusal = {
    val bytes = MessageProperties.encode(properties).getBytes(UTF_8).length
    impossible(AppendOutcome.PropertiesTooLong(bytes, StoredRecord.MaxPropertiesBytes))
  }

  def noPermission(sentence: String): Refusal = new Refusal(ResponseCode.NoPermission, sentence)

  def unavailable(reason: String): Refusal =
    new Refusal(ResponseCode.ServiceNotAvailable, s"service not available now: $reason")

  def topicNotExist(topic: String): Refusal =
    new Refusal(ResponseCode.TopicNotExist, s"topic[$topic] not exist, apply first please!")

  def noRoute(topic: String): Refusal =
    new Refusal(
      ResponseCode.TopicNotExist,
      s"No topic route info in name server for the topic: $topic"
    )

  def groupNotExist(group: String): Refusal =
    new Refusal(
      ResponseCode.SubscriptionGroupNotExist,
      s"subscription group [$group] does not exist"
    )

  def notFound(sentence: String): Refusal = new Refusal(ResponseCode.QueryNotFound, sentence)

  def staleEpoch(group: String, queue: QueueKey, epoch: Long, stale: StaleEpoch): Refusal = {
    val holder = stale.holder.fold(s"nobody (last epoch ${stale.lastEpoch})") { lease =>
      s"${lease.clientId} under epoch ${lease.epoch}"
    }
    new Refusal(
      ResponseCode.StaleLeaseEpoch,
      s"Lease epoch $epoch of group $group on queue $queue is not live; the queue is held by " +
        s"$holder."
    )
  }

  def writeFenced(lost: LostRun, holder: Option[Lease]): Refusal = {
    val reason = lost.grant.fold("it has given back every queue that it read") { grant =>
      val owner = holder.fold("nobody")(lease => s"${lease.clientId} under epoch ${lease.epoch}")
      s"its lease epoch ${grant.epoch} of group ${grant.key.group} on queue ${grant.key.queue} is " +
        s"over; the queue is held by $owner"
    }
    new Refusal(
      ResponseCode.WriteFenced,
      s"Run ${lost.run} may not write any more: $reason. Nothing was stored."
    )
  }

  def offsetWentBack(group: String, queue: QueueKey, asked: Long, committed: Long): Refusal =
    new Refusal(
      ResponseCode.OffsetWentBack,
      s"Group $group has committed $committed on queue $queue; a commit under a lease cannot go " +
        s"back to $asked."
    )
}
