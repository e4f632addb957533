package rmqordered.store

import com.fasterxml.jackson.databind.node.ObjectNode

import scala.jdk.CollectionConverters._

import rmqordered.util.{Json, SmallFile}

/**
 * The name server's key-value pairs, by namespace. A change is on disk before it is visible.
 * Thread-safe: reads see an immutable snapshot, changes are serialised.
 */
final class KvTable(file: SmallFile) {
  @volatile private var namespaces: Map[String, Map[String, String]] =
    Json.read(file).fold(Map.empty[String, Map[String, String]])(decode)

  def get(namespace: String, key: String): Option[String] =
    namespaces.get(namespace).flatMap(_.get(key))

  def list(namespace: String): Option[Map[String, String]] = namespaces.get(namespace)

  def put(namespace: String, key: String, value: String): Unit = synchronized {
    save(namespaces.updated(
      namespace,
      namespaces.getOrElse(namespace, Map.empty).updated(key, value)
    ))
  }

  def delete(namespace: String, key: String): Unit = synchronized {
    get(namespace, key).foreach { _ =>
      val remaining = namespaces(namespace) - key
      save(if (remaining.isEmpty) namespaces - namespace
      else namespaces.updated(namespace, remaining))
    }
  }

  private def save(changed: Map[String, Map[String, String]]): Unit = {
    file.replace(Json.bytes(encode(changed)))
    namespaces = changed
  }

  private def encode(tables: Map[String, Map[String, String]]): ObjectNode = {
    val root = Json.obj()
    val table = root.putObject("configTable")
    tables.foreach { case (namespace, pairs) =>
      val node = table.putObject(namespace)
      pairs.foreach { case (key, value) => node.put(key, value) }
    }
    root
  }

  private def decode(root: ObjectNode): Map[String, Map[String, String]] =
    root
      .path("configTable")
      .properties()
      .asScala
      .map { namespace =>
        val pairs =
          namespace.getValue.properties().asScala.map(e => e.getKey -> e.getValue.asText())
        namespace.getKey -> pairs.toMap
      }
      .toMap
}
