package rmqordered.store

import com.fasterxml.jackson.databind.node.ObjectNode

import scala.jdk.CollectionConverters._

import rmqordered.config.LimitSettings
import rmqordered.util.{Cost, Json, Owner, RememberedTable, SmallFile}

/**
 * The name server's key-value pairs, by namespace. A change is on disk before it is visible.
 * Thread-safe: reads see an immutable snapshot, changes are serialised.
 */
final class KvTable(
    file: SmallFile,
    memory: RememberedTable = new RememberedTable("pairs", LimitSettings.default.kvBytes)
) {
  @volatile private var namespaces: Map[String, Map[String, String]] =
    Json.read(file).fold(Map.empty[String, Map[String, String]])(decode)

  memory.keep(
    namespaces.iterator.flatMap { case (namespace, pairs) =>
      pairs.map { case (key, value) => costOf(namespace, key, value) }
    }.sum
  )
  // On whose account a pair is, as long as that is known.
  private var owners: Map[(String, String), Seq[Owner]] = Map.empty

  def get(namespace: String, key: String): Option[String] =
    namespaces.get(namespace).flatMap(_.get(key))

  def list(namespace: String): Option[Map[String, String]] = namespaces.get(namespace)

  /** @throws rmqordered.util.TableFull when no more can be remembered */
  def put(namespace: String, key: String, value: String, user: Seq[Owner] = Nil): Unit =
    synchronized {
      val before = cost(namespace, key)
      val after = Cost(costOf(namespace, key, value), user)
      memory.replace(before, after)
      try
        save(
          namespaces.updated(
            namespace,
            namespaces.getOrElse(namespace, Map.empty).updated(key, value)
          )
        )
      catch {
        case error: Throwable =>
          memory.replace(after, before)
          throw error
      }
      if (user.nonEmpty) owners = owners.updated((namespace, key), user)
      else owners -= ((namespace, key))
    }

  private def cost(namespace: String, key: String): Cost =
    get(namespace, key).fold(Cost.none) { value =>
      Cost(costOf(namespace, key, value), owners.getOrElse((namespace, key), Nil))
    }

  private def costOf(namespace: String, key: String, value: String): Long =
    RememberedTable.EntryBytes + Seq(namespace, key, value).map(RememberedTable.text).sum

  def delete(namespace: String, key: String): Unit = synchronized {
    get(namespace, key).foreach { _ =>
      val gone = cost(namespace, key)
      val remaining = namespaces(namespace) - key
      save(if (remaining.isEmpty) namespaces - namespace
      else namespaces.updated(namespace, remaining))
      memory.give(gone)
      owners -= ((namespace, key))
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
