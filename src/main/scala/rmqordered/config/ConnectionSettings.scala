package rmqordered.config

/** Settings that say how many may be connected. */
trait ConnectionSettings {
  val maxConnections: Setting[Int] =
    Setting.int(
      "maxConnections",
      10000,
      1 to 1000000,
      "Connections served at once; further ones are closed."
    )
  val maxConnectionsPerAddress: Setting[Int] =
    Setting.int(
      "maxConnectionsPerAddress",
      0,
      0 to 1000000,
      "The same for one address; 0: half of maxConnections. This machine's own have no such limit."
    )
}
