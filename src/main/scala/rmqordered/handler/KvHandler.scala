package rmqordered.handler

import rmqordered.model.Names
import rmqordered.store.KvTable
import rmqordered.util.Json

/** The name server's key-value configuration. */
final class KvHandler(table: KvTable, maxValueChars: Int) {

  /** 100. */
  def put(call: Call): Unit = {
    val (namespace, key, value) = (call.text("namespace"), call.text("key"), call.text("value"))
    Failures.ensureNone(
      Names.textProblem("namespace", namespace) ++ Names.textProblem("key", key)
    )
    if (value.length > maxValueChars)
      throw Failures.invalid(
        s"The value has ${value.length} characters, at most $maxValueChars are kept."
      )
    table.put(namespace, key, value, call.user)
    call.answer(Response.ok)
  }

  /** 101. */
  def get(call: Call): Unit = {
    val (namespace, key) = (call.text("namespace"), call.text("key"))
    val value = table.get(namespace, key)
    call.answer(
      Response.fields("value" -> value.getOrElse(throw missing(s"Namespace: $namespace Key: $key")))
    )
  }

  /** 102. */
  def delete(call: Call): Unit = {
    table.delete(call.text("namespace"), call.text("key"))
    call.answer(Response.ok)
  }

  /** 219. */
  def list(call: Call): Unit = {
    val namespace = call.text("namespace")
    val pairs = table.list(namespace).getOrElse(throw missing(s"Namespace: $namespace"))
    val root = Json.obj()
    val node = root.putObject("table")
    pairs.foreach { case (key, value) => node.put(key, value) }
    call.answer(Response.json(root))
  }

  private def missing(what: String): Refusal = Failures.notFound(s"No config item, $what")
}
