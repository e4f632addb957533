package rmqordered.auth

import java.net.InetAddress

/** Addresses with a common prefix: `10.1.2.3`, `10.0.0.0/8`, `::1`. */
final class AddressRange private (network: Array[Byte], prefixBits: Int) {

  def contains(address: Array[Byte]): Boolean =
    address.length == network.length && (0 until prefixBits).forall { bit =>
      val mask = 0x80 >> (bit % 8)
      (address(bit / 8) & mask) == (network(bit / 8) & mask)
    }
}

object AddressRange {

  /** The range, or nothing when the text is none. Never asks a name server. */
  def parse(text: String): Option[AddressRange] = {
    val trimmed = text.trim
    val slash = trimmed.indexOf('/')
    for {
      network <- literal(if (slash < 0) trimmed else trimmed.substring(0, slash))
      whole = network.length * 8
      prefix <- if (slash < 0) Some(whole) else trimmed.substring(slash + 1).toIntOption
      if prefix >= 0 && prefix <= whole
    } yield new AddressRange(network, prefix)
  }

  private def literal(host: String): Option[Array[Byte]] = {
    val isV4 = host.matches("\\d{1,3}(\\.\\d{1,3}){3}") && host.split('.').forall(_.toInt <= 255)
    val isV6 = host.contains(':') && host.matches("[0-9a-fA-F:.]+")
    if (isV4 || isV6)
      try Some(InetAddress.getByName(host).getAddress)
      catch { case _: java.net.UnknownHostException => None }
    else None
  }
}
