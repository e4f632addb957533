package rmqordered.filter

import scala.annotation.tailrec

/** A piece of an expression and where it starts, counted from 1. */
final case class SqlToken(kind: SqlToken.Kind, text: String, at: Int) {
  def isWord(word: String): Boolean =
    kind == SqlToken.Word && text.equalsIgnoreCase(word)

  def isSymbol(symbol: String): Boolean = kind == SqlToken.Symbol && text == symbol
}

object SqlToken {
  sealed trait Kind
  case object Word extends Kind
  case object Quoted extends Kind
  case object Whole extends Kind
  case object Real extends Kind
  case object Symbol extends Kind
  case object End extends Kind
}

/** What is wrong with an expression, as a sentence without its full stop. */
final class SqlError(message: String) extends Exception(message, null, false, false)

/** Cuts an expression into tokens. */
object SqlLexer {
  private val symbols = Seq("<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "+", "-")
  private val number = """(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?[lL]?""".r

  /** @throws SqlError when something is in the text that belongs to no expression */
  def tokens(text: String): Vector[SqlToken] = {
    @tailrec
    def go(at: Int, found: Vector[SqlToken]): Vector[SqlToken] =
      if (at >= text.length) found :+ SqlToken(SqlToken.End, "the end", text.length + 1)
      else if (text.charAt(at).isWhitespace) go(at + 1, found)
      else {
        val (token, end) = next(text, at)
        go(end, found :+ token)
      }
    go(0, Vector.empty)
  }

  private def next(text: String, at: Int): (SqlToken, Int) = {
    val char = text.charAt(at)
    if (char == '\'') quoted(text, at)
    else if (isWordStart(char)) {
      val end = text.indexWhere(!isWordPart(_), at) match {
        case -1 => text.length
        case found => found
      }
      (SqlToken(SqlToken.Word, text.substring(at, end), at + 1), end)
    } else if (
      isDigit(char) || (char == '.' && at + 1 < text.length && isDigit(text.charAt(at + 1)))
    )
      numeral(text, at)
    else
      symbols.find(text.startsWith(_, at)) match {
        case Some(symbol) => (SqlToken(SqlToken.Symbol, symbol, at + 1), at + symbol.length)
        case None => throw new SqlError(s"'$char' at character ${at + 1} means nothing")
      }
  }

  /** A text in single quotes, in which two of them mean one. */
  private def quoted(text: String, at: Int): (SqlToken, Int) = {
    val value = new StringBuilder
    @tailrec
    def go(i: Int): Int =
      if (i >= text.length)
        throw new SqlError(s"the text that starts at character ${at + 1} has no end")
      else if (text.charAt(i) != '\'') {
        value.append(text.charAt(i))
        go(i + 1)
      } else if (text.startsWith("''", i)) {
        value.append('\'')
        go(i + 2)
      } else i + 1
    val end = go(at + 1)
    (SqlToken(SqlToken.Quoted, value.toString, at + 1), end)
  }

  private def numeral(text: String, at: Int): (SqlToken, Int) = {
    val image = number.findPrefixOf(text.substring(at)).getOrElse("")
    val digits = image.stripSuffix("l").stripSuffix("L")
    val kind = if (digits.forall(isDigit)) SqlToken.Whole else SqlToken.Real
    (SqlToken(kind, digits, at + 1), at + image.length)
  }

  private def isDigit(char: Char): Boolean = char >= '0' && char <= '9'

  private def isWordStart(char: Char): Boolean =
    (char >= 'a' && char <= 'z') || (char >= 'A' && char <= 'Z') || char == '_' || char == '$'

  private def isWordPart(char: Char): Boolean = isWordStart(char) || isDigit(char)
}
