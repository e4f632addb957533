package rmqordered.util

import scala.collection.mutable

/** No more can be remembered; the message is a sentence for whoever asked for it. */
final class TableFull(message: String) extends Exception(message, null, false, false)

/**
 * On whose account something is remembered, and which part of a table it may take: one over
 * `parts`.
 *
 * @param key
 *   a user's name or a connection; compared as it compares itself
 */
final case class Owner(key: Any, kind: String, parts: Int)

object Owner {

  /** One user may have half of a table: the others must find room. */
  def user(name: String): Owner = Owner(name, "user", 2)

  def connection(connection: Any): Owner = Owner(connection, "connection", 8)
}

/** What something takes in memory, about, and on whose account. */
final case class Cost(bytes: Long, owners: Seq[Owner])

object Cost {
  val none: Cost = Cost(0, Nil)
}

/**
 * How much memory a table takes, about, and how much it may take. Whoever adds to the table asks
 * here first, and gives back what it removes; owners that hold nothing are forgotten.
 *
 * Thread-safe. Never holds a lock while anything else is called.
 */
final class RememberedTable(val name: String, val maxBytes: Long) {
  private var total = 0L
  private val byOwner = mutable.HashMap.empty[Owner, Long]

  def bytes: Long = synchronized(total)

  /**
   * Takes memory for something.
   *
   * @throws TableFull
   *   when there is none, for all or for one of the owners; then nothing is changed
   */
  def take(cost: Cost): Unit = replace(Cost.none, cost)

  def give(cost: Cost): Unit = replace(cost, Cost.none)

  /**
   * Gives memory back and takes other memory in its place.
   *
   * @throws TableFull
   *   when there is none; then nothing is changed
   */
  def replace(before: Cost, after: Cost): Unit = synchronized {
    add(before, -1)
    // Whoever takes no more than before may always do so.
    try if (after.bytes > before.bytes) ensureRoom(after.bytes, after.owners)
    catch {
      case full: TableFull =>
        add(before, 1)
        throw full
    }
    add(after, 1)
  }

  private def add(cost: Cost, sign: Int): Unit = {
    total += sign * cost.bytes
    cost.owners.foreach { owner =>
      val left = byOwner.getOrElse(owner, 0L) + sign * cost.bytes
      if (left > 0) byOwner(owner) = left else byOwner.remove(owner)
    }
  }

  /** The same for what is there already and must be kept, whatever the bound says. */
  def keep(delta: Long): Unit = synchronized(total += delta)

  private def ensureRoom(delta: Long, owners: Seq[Owner]): Unit = {
    if (total + delta > maxBytes) refuse("all clients together have", maxBytes, delta)
    owners.find(owner => byOwner.getOrElse(owner, 0L) + delta > maxBytes / owner.parts).foreach {
      owner => refuse(s"one ${owner.kind} has", maxBytes / owner.parts, delta)
    }
  }

  private def refuse(who: String, bound: Long, delta: Long): Nothing =
    throw new TableFull(
      s"The broker remembers no more $name: $who at most $bound bytes of them, and this needs " +
        s"$delta more. Remove what is not needed."
    )
}

object RememberedTable {

  // What a string takes beside its characters, of which some need two bytes.
  private val StringBytes = 56L

  /** About what a text takes. */
  def text(text: String): Long = StringBytes + 2L * text.length

  /** About what an entry of a table takes beside its texts. */
  val EntryBytes = 128L
}
