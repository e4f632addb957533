package rmqordered.handler

import rmqordered.model.QueueKey
import rmqordered.protocol.ResponseCode
import rmqordered.stats.Traffic
import rmqordered.store.MessageStore
import rmqordered.util.Clock

/** Pops (200050) and notifications (200054), with long polling, and how many wait (200055). */
final class PopHandler(
    requests: PopRequests,
    reader: PopReader,
    parked: ParkedPops,
    store: MessageStore,
    traffic: Traffic,
    clock: Clock
) {
  import PopHandler._

  /** 200050. */
  def pop(call: Call): Unit = {
    val request = requests.pop(call)
    attempt(call, request, isLast = false)
  }

  /** 200054: whether there is something to pop, as soon as there is. */
  def notification(call: Call): Unit = notify(call, requests.notification(call), isLast = false)

  /** 200055. */
  def pollingInfo(call: Call): Unit = {
    val topic = call.text("topic")
    if (!store.topics.contains(topic)) throw Failures.topicNotExist(topic)
    val waiting = parked.waiting(topic, call.text("consumerGroup"), call.int("queueId"))
    call.answer(Response.fields("pollingNum" -> waiting.toString))
  }

  /** Messages arrived in a queue. */
  def onArrival(key: QueueKey): Unit = parked.arrived(key)

  private def attempt(call: Call, request: PopRequest, isLast: Boolean): Unit =
    if (!store.isAccepting)
      call.fail(Failures.unavailable("the commit log takes no records of pops"))
    else
      reader.pop(request)(guarded(call) { finding =>
        if (finding.problem.isDefined) call.fail(Failures.unavailable(finding.problem.get))
        else if (finding.parts.nonEmpty) {
          val count = finding.parts.map(_.offsets.length).sum
          traffic.onPulled(request.group, request.topic.name, count)
          call.answer(
            PopReply.found(finding.parts, finding.times, finding.restNum, request.isOrderly)
          )
        } else {
          def empty(code: Int) = PopReply.empty(code, finding.times, request.isOrderly)
          wait(call, request, isLast || finding.isCutShort)(attempt(call, request, _)) match {
            case Waiting.Parked => ()
            case Waiting.Over => call.answer(empty(ResponseCode.PollingTimeout))
            case Waiting.Full => call.answer(empty(ResponseCode.PollingFull))
          }
        }
      })

  private def notify(call: Call, request: PopRequest, isLast: Boolean): Unit = {
    val hasMessages = reader.mayHaveMessages(request)
    def answer(isFull: Boolean): Unit =
      call.answer(
        Response.fields("hasMsg" -> hasMessages.toString, "pollingFull" -> isFull.toString)
      )
    if (hasMessages) answer(isFull = false)
    else
      wait(call, request, isLast)(notify(call, request, _)) match {
        case Waiting.Parked => ()
        case other => answer(isFull = other == Waiting.Full)
      }
  }

  private def wait(call: Call, request: PopRequest, isLast: Boolean)(
      again: Boolean => Unit
  ): Waiting = {
    val leftMs = request.waitUntil - AnswerMs - clock.wallMillis()
    if (isLast || leftMs <= 0) Waiting.Over
    else {
      val expressionLength = call.optional("exp").fold(0)(_.length)
      // The request itself is read; only its answer is left to be made.
      call.keepOnly("exp")
      val pop = new ParkedPop(
        request.topic.name +: request.retryTopics,
        request.group,
        request.queueId,
        call.connection,
        clock.monotonicMillis() + leftMs,
        reader.freeAt(request),
        expressionLength,
        isOver => resume(call)(again(isOver)),
        () => call.abandon()
      )
      if (!parked.park(pop)) Waiting.Full
      else {
        // Messages may have come between the look and the parking; their arrival woke nobody.
        if (reader.mayHaveMessages(request)) parked.wakeOne(pop)
        Waiting.Parked
      }
    }
  }

  /** What is found comes with a flush that serves others too. */
  private def guarded(call: Call)(answer: PopFinding => Unit): PopFinding => Unit =
    finding => resume(call)(answer(finding))

  private def resume(call: Call)(action: => Unit): Unit =
    try action
    catch { case error: Throwable => call.fail(error) }
}

object PopHandler {

  // As RocketMQ: a long poll ends a little before its client gives up.
  private val AnswerMs = 50L

  private sealed trait Waiting

  private object Waiting {
    case object Parked extends Waiting
    case object Over extends Waiting
    case object Full extends Waiting
  }
}
