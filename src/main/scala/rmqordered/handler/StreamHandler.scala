package rmqordered.handler

import rmqordered.dedup.{SendStamp, StreamKey}
import rmqordered.model.QueueKey
import rmqordered.store.{AppendOutcome, MessageStore}

/** What the broker knows of stamped sends, for clients that ask instead of guessing. */
final class StreamHandler(store: MessageStore) {

  /** 19002, this project's own. Answered when what it says is durable. */
  def last(call: Call): Unit = {
    val sink = call.text("sink")
    if (!SendStamp.isSink(sink))
      throw Failures.invalid(s"'${sink.take(80)}' is not the name of a sink.")
    val key =
      StreamKey(QueueKey(call.text("topic"), call.int("queueId")), sink, call.long("partition"))
    store.lastStamp(key) {
      case Right(Some(last)) => call.answer(Response.fields(Stamps.fields(last): _*))
      case Right(None) => call.fail(Failures.notFound("The stream is not known here."))
      case Left(AppendOutcome.Unavailable(reason)) => call.fail(Failures.unavailable(reason))
    }
  }
}
