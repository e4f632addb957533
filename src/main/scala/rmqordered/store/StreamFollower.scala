package rmqordered.store

import rmqordered.dedup.SendStreams
import rmqordered.protocol.DecodedRecord

/** Brings the send streams back together with the store, and writes them with its checkpoints. */
final class StreamFollower(streams: SendStreams) extends LogFollower {

  override def durableTo: Long = streams.validTo

  override def replay(record: DecodedRecord): Unit = streams.observe(record)

  override def startAnew(): Unit = streams.reset()

  override def snapshot(logOffset: Long): () => Unit = {
    val frozen = streams.freeze(logOffset)
    () => streams.save(frozen)
  }
}
