package rmqordered.store

import java.nio.ByteBuffer

import rmqordered.protocol.{DecodedRecord, RecordReader}

/** Looks at places of the commit log that somebody claims to be records. Pure. */
object LogRecords {

  /** The record at a place, if there is one that says it stands there. */
  def at(segment: ByteBuffer, position: Int, commitLogOffset: Long): Option[DecodedRecord] =
    RecordReader.read(segment, position) match {
      case RecordReader.Found(record) if record.position.commitLogOffset == commitLogOffset =>
        Some(record)
      case _ => None
    }
}
