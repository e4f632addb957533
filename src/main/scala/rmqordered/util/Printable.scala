package rmqordered.util

/** Text of others on its way to a log or a terminal: one line that steers neither. Pure. */
object Printable {

  /** The text with control characters written as \xNN, cut to a length that no line needs. */
  def apply(text: String): String = {
    val shown = if (text.length > MaxLength) text.take(MaxLength) + "..." else text
    if (!shown.exists(isControl)) shown
    else shown.flatMap(char => if (isControl(char)) f"\\x${char.toInt}%02x" else char.toString)
  }

  /** C0, DEL, C1, and the marks that turn or break lines. */
  def isControl(char: Char): Boolean =
    Character.isISOControl(char) || Character.getType(char) == Character.FORMAT ||
      char == '\u2028' || char == '\u2029'

  private val MaxLength = 2048
}
