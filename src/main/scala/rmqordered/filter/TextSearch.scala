package rmqordered.filter

/**
 * Looks for a text in others in time that grows with their length alone (Knuth, Morris and Pratt).
 * Java's own search takes the product of both lengths at worst, and clients choose both. Immutable.
 */
final class TextSearch(sought: String) {

  // How much of `sought` is still matched when the character after its first i + 1 is a wrong one.
  private val fallback: Array[Int] = {
    val found = new Array[Int](sought.length)
    var matched = 0
    (1 until sought.length).foreach { i =>
      matched = advance(found, matched, sought.charAt(i))
      found(i) = matched
    }
    found
  }

  private def advance(table: Array[Int], before: Int, next: Char): Int = {
    var matched = before
    while (matched > 0 && sought.charAt(matched) != next) matched = table(matched - 1)
    if (sought.charAt(matched) == next) matched + 1 else matched
  }

  def isIn(text: String): Boolean = {
    var matched = 0
    var at = 0
    while (matched < sought.length && at >= 0 && at < text.length) {
      // Java finds a single character many at a time.
      if (matched == 0) at = text.indexOf(sought.charAt(0).toInt, at)
      if (at >= 0) {
        matched = advance(fallback, matched, text.charAt(at))
        at += 1
      }
    }
    matched == sought.length
  }
}
