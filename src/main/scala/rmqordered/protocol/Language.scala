package rmqordered.protocol

/** RocketMQ's LanguageCode: names in JSON headers, ordinals in binary ones. */
object Language {
  val Java = "JAVA"
  val Other = "OTHER"

  private val names = Vector(
    Java,
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    Other,
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS"
  )

  /** The listed name, or OTHER for a peer that invents one. */
  def known(name: String): String = if (names.contains(name)) name else Other

  def byOrdinal(ordinal: Int): String = names.lift(ordinal).getOrElse(Other)

  def ordinal(name: String): Int = names.indexOf(known(name))
}
