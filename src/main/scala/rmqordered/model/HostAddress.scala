package rmqordered.model

import java.net.{InetAddress, InetSocketAddress}
import java.util

/** An IP address and port as RocketMQ stores them in a record: 4 or 16 raw bytes, then the port. */
final class HostAddress(val address: Array[Byte], val port: Int) {
  def isV6: Boolean = address.length == HostAddress.V6Bytes

  /** Bytes this host takes in a stored record. */
  def encodedLength: Int = address.length + 4

  override def equals(other: Any): Boolean = other match {
    case that: HostAddress => port == that.port && util.Arrays.equals(address, that.address)
    case _ => false
  }

  override def hashCode: Int = 31 * util.Arrays.hashCode(address) + port

  override def toString: String = {
    val host = InetAddress.getByAddress(address).getHostAddress
    if (isV6) s"[$host]:$port" else s"$host:$port"
  }
}

object HostAddress {
  val V4Bytes = 4
  val V6Bytes = 16

  def of(socket: InetSocketAddress): HostAddress =
    new HostAddress(socket.getAddress.getAddress, socket.getPort)
}
