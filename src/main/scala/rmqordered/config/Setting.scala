package rmqordered.config

/**
 * One broker setting: its name, default, meaning and check, in one place.
 *
 * @param default
 *   the default as it would be written in the configuration file
 */
final class Setting[T] private (
    val name: String,
    val default: String,
    val doc: String,
    read: String => Either[String, T]
) {

  /** The typed value, or a sentence saying what was expected. */
  def parse(text: String): Either[String, T] =
    read(text.trim).left.map(expected => s"Setting $name expects $expected, found '${text.trim}'.")
}

object Setting {

  def text(name: String, default: String, doc: String): Setting[String] =
    new Setting(name, default, doc, Right(_))

  /** A name that ends up in routes and file names, hence RocketMQ's rule for topic names. */
  def word(name: String, default: String, doc: String): Setting[String] =
    new Setting(
      name,
      default,
      doc,
      text =>
        Either.cond(
          text.matches("[a-zA-Z0-9_-]{1,100}"),
          text,
          "1 to 100 of the characters a-z A-Z 0-9 _ -"
        )
    )

  def flag(name: String, default: Boolean, doc: String): Setting[Boolean] =
    new Setting(name, default.toString, doc, text => text.toBooleanOption.toRight("true or false"))

  def int(name: String, default: Int, range: Range.Inclusive, doc: String): Setting[Int] =
    new Setting(
      name,
      default.toString,
      doc,
      text =>
        text.toIntOption
          .filter(value => value >= range.start && value <= range.end)
          .toRight(s"a whole number from ${range.start} to ${range.end}")
    )

  /** Words with commas between, each of a form; none by default. */
  def list(name: String, form: String, doc: String)(
      isLegal: String => Boolean
  ): Setting[Vector[String]] =
    new Setting(
      name,
      "",
      doc,
      text => {
        val found = text.split(',').toVector.map(_.trim).filter(_.nonEmpty)
        Either.cond(found.forall(isLegal), found, s"$form,$form...")
      }
    )

  /** Times such as `1s 5m 2h`, separated by spaces, in milliseconds. */
  def times(name: String, default: String, doc: String): Setting[Vector[Long]] =
    new Setting(
      name,
      default,
      doc,
      text => {
        val found = text.split(' ').toVector.filter(_.nonEmpty).map(timeMs)
        Either.cond(
          found.nonEmpty && found.forall(_.isDefined),
          found.flatten,
          "times such as 1s 5m 2h 1d separated by spaces"
        )
      }
    )

  private val unitMs = Map('s' -> 1000L, 'm' -> 60000L, 'h' -> 3600000L, 'd' -> 86400000L)

  private def timeMs(text: String): Option[Long] =
    for {
      unit <- unitMs.get(text.last)
      number <- text.init.toIntOption
      if number >= 0
    } yield number * unit

  /** A whole number with a lower bound: sizes that do not fit an Int. */
  def long(name: String, default: Long, min: Long, doc: String): Setting[Long] =
    new Setting(
      name,
      default.toString,
      doc,
      text => text.toLongOption.filter(_ >= min).toRight(s"a whole number from $min on")
    )

  def choice[T](name: String, default: T, doc: String)(choices: (String, T)*): Setting[T] =
    new Setting(
      name,
      choices.collectFirst { case (text, value) if value == default => text }.get,
      doc,
      text => choices.toMap.get(text).toRight(choices.map(_._1).mkString(" or "))
    )
}
