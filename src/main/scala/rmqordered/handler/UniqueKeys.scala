package rmqordered.handler

import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicLong

import rmqordered.protocol.MessageId

/** Ids for messages whose producer set none: a seed that differs per process, and a counter. */
final class UniqueKeys(seed: Long) {
  private val counter = new AtomicLong()

  def next(): String =
    MessageId.hex(ByteBuffer.allocate(16).putLong(seed).putLong(counter.getAndIncrement()).array())
}
