package rmqordered.protocol

/**
 * The header fields of a command, in the order they were written. Immutable. A dozen fields at
 * most, hence a scan instead of a hash table; of a repeated key the last value counts.
 */
final class ExtFields private (private val entries: Vector[(String, String)]) {

  def get(key: String): Option[String] = {
    val index = entries.lastIndexWhere(_._1 == key)
    if (index < 0) None else Some(entries(index)._2)
  }

  def toSeq: Seq[(String, String)] = entries

  def isEmpty: Boolean = entries.isEmpty

  override def equals(other: Any): Boolean = other match {
    case that: ExtFields => entries.toMap == that.entries.toMap
    case _ => false
  }

  override def hashCode: Int = entries.toMap.hashCode

  override def toString: String = entries.map { case (k, v) => s"$k=$v" }.mkString("{", ", ", "}")
}

object ExtFields {
  val empty: ExtFields = new ExtFields(Vector.empty)

  def apply(entries: (String, String)*): ExtFields = new ExtFields(entries.toVector)
}
