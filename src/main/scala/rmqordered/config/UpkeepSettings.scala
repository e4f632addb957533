package rmqordered.config

/** The settings of what the store does from time to time, beside what clients ask for. */
trait UpkeepSettings {
  val checkpointIntervalMs: Setting[Int] =
    Setting.int(
      "checkpointIntervalMs",
      10000,
      100 to 600000,
      "Time between checkpoints: after a crash so much of the log is read again."
    )
  val scrubBytesPerSecond: Setting[Int] =
    Setting.int(
      "scrubBytesPerSecond",
      1 << 20,
      0 to (1 << 30),
      "Bytes of the commit log compared with their checksums in the background; 0: none."
    )
}
