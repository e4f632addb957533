package rmqordered.protocol

/**
 * The peer sent bytes that are not a frame, header or message. The connection they came on cannot
 * be trusted any further; other connections are not concerned. No stack trace: the place is always
 * the peer.
 */
final class ProtocolError(message: String) extends Exception(message, null, false, false)
