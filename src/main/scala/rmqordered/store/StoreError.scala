package rmqordered.store

/** The data directory cannot be used; the message is one sentence for the operator. */
final class StoreError(message: String, cause: Throwable = null) extends Exception(message, cause)
