package rmqordered

import java.io.{DataInputStream, EOFException}
import java.net.Socket

import rmqordered.protocol.{Body, ExtFields, FrameCodec, RemotingCommand, SerializeType}

/** A blocking client over a real socket, for tests only. */
final class SocketClient(address: String) {
  private val (host, port) = EmbeddedBroker.parseListen(address)
  val socket = new Socket(host, port.toInt)
  socket.setSoTimeout(20000)
  private val in = new DataInputStream(socket.getInputStream)
  private var opaque = 0

  def send(
      code: Int,
      fields: Map[String, String] = Map.empty,
      body: Array[Byte] = Array.emptyByteArray,
      serializeType: SerializeType = SerializeType.Json
  ): Int = {
    opaque += 1
    val ext = Some(ExtFields(fields.toSeq: _*))
    val command = RemotingCommand(code, "PYTHON", 479, opaque, 0, None, ext, Body(body))
    write(FrameCodec.encode(command, serializeType))
    opaque
  }

  def write(bytes: Array[Byte]): Unit = {
    socket.getOutputStream.write(bytes)
    socket.getOutputStream.flush()
  }

  def receive(): RemotingCommand = {
    val frame = new Array[Byte](in.readInt())
    in.readFully(frame)
    FrameCodec.decode(frame)
  }

  def call(
      code: Int,
      fields: Map[String, String] = Map.empty,
      body: Array[Byte] = Array.emptyByteArray
  ): RemotingCommand = {
    val id = send(code, fields, body)
    Iterator.continually(receive()).find(c => c.isResponse && c.opaque == id).get
  }

  /** True when the broker hangs up, within the socket's timeout. */
  def isHungUp: Boolean =
    try {
      while (in.read() >= 0) {}
      true
    } catch { case _: EOFException | _: java.net.SocketException => true }

  def close(): Unit = socket.close()
}
