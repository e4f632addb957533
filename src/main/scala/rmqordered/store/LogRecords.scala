package rmqordered.store

import rmqordered.protocol.{DecodedRecord, RecordReader}

/** Looks at places of the commit log that somebody claims to be records. */
object LogRecords {

  /** The record at a place, if there is one that says it stands there. */
  def at(segment: MappedSegment, position: Int, commitLogOffset: Long): Option[DecodedRecord] =
    RecordReader.read(segment.bytes, position) match {
      case RecordReader.Found(record) if record.position.commitLogOffset == commitLogOffset =>
        segment.noteRead(record.size)
        Some(record)
      case _ => None
    }
}
