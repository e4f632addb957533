package rmqordered.handler

import rmqordered.protocol.{Body, ExtFields, ResponseCode}
import rmqordered.store.{KeyKind, KeyQuery, KeySearch, MessageStore}
import rmqordered.util.WorkTurns

/** Single messages: by the place an offset message id names (33), and by key or unique key (12). */
final class QueryHandler(store: MessageStore, maxBytes: Int, turns: WorkTurns) {
  import QueryHandler._

  /** 33. The offset is the client's word: only where a message starts there is an answer. */
  def byOffset(call: Call): Unit = {
    val commitLogOffset = call.long("offset")
    val message = store.messageAt(commitLogOffset).getOrElse {
      throw new Refusal(
        ResponseCode.SystemError,
        s"can not find message by the offset: $commitLogOffset"
      )
    }
    call.answer(Response(ResponseCode.Success, body = message))
  }

  /** 12. As many bytes as a wide pull: an answer is copied while other connections wait. */
  def byKey(call: Call): Unit = {
    val isUnique = call.optionalFlag("_UNIQUE_KEY_QUERY").getOrElse(false)
    val query = KeyQuery(
      call.text("topic"),
      call.text("key"),
      if (isUnique) KeyKind.Unique else KeyKind.Chosen,
      Math.min(Math.max(call.optionalInt("maxNum").getOrElse(MaxMessages), 1), MaxMessages),
      call.optionalLong("beginTimestamp").getOrElse(0L),
      call.optionalLong("endTimestamp").getOrElse(Long.MaxValue),
      maxBytes.toLong
    )
    advance(call, new KeySearch(query))
  }

  private def advance(call: Call, search: KeySearch): Unit =
    store.advance(search, turns.begin()) match {
      case Some(found) => answer(call, found)
      case None => call.inNextTurn(advance(call, search))
    }

  private def answer(call: Call, found: Body): Unit = {
    if (found.isEmpty)
      throw Failures.notFound("can not find message, maybe time range not correct")
    val fields = ExtFields(
      "indexLastUpdateTimestamp" -> store.lastStoreTime.toString,
      "indexLastUpdatePhyoffset" -> store.logEnd.toString
    )
    call.answer(Response(ResponseCode.Success, extFields = Some(fields), body = found))
  }
}

object QueryHandler {

  // RocketMQ 5.x MessageStoreConfig.maxMsgsNumBatch.
  private val MaxMessages = 64
}
