package rmqordered.auth

import java.io.IOException
import java.nio.file.{Files, InvalidPathException, Path}

import rmqordered.config.{BrokerConfig, ConfigError}

/**
 * Users and their permissions in java-properties text; `conf/acl.conf` shows the format. Read once,
 * at the start. Whatever is not understood is an error: a permission that was mistyped must not
 * silently be none, and a denial not silently be a permission. Sentences never quote a secret.
 */
object AclFile {
  private val Prefix = "user."
  private val MinSecretLength = 8

  /** @param strictByDefault whether users sign strictly about whom the file does not say it */
  def load(file: String, strictByDefault: Boolean): Seq[User] =
    try parse(Files.readString(Path.of(file)), file, strictByDefault)
    catch {
      case error: IOException =>
        throw new ConfigError(s"The ACL file $file cannot be read: $error.")
      case _: InvalidPathException => throw new ConfigError(s"The ACL file '$file' is no path.")
    }

  def parse(text: String, file: String, strictByDefault: Boolean = false): Seq[User] = {
    val lines = BrokerConfig.parseProperties(text)
    def refuse(problem: String): Nothing =
      throw new ConfigError(s"The ACL file $file is wrong: $problem.")
    val byUser = lines.toSeq
      .map { case (key, value) =>
        key.stripPrefix(Prefix).split("\\.", 2) match {
          case Array(user, rest) if key.startsWith(Prefix) && user.matches("[a-zA-Z0-9_-]{1,64}") =>
            (user, (rest, value.trim))
          case _ => refuse(s"a line is written user.NAME.SETTING=VALUE, found '$key'")
        }
      }
      .groupMap(_._1)(_._2)
    if (byUser.isEmpty) refuse("it has no user, so nobody could do anything")
    byUser.toSeq.map { case (name, entries) =>
      user(name, entries.toMap, strictByDefault)
        .fold(problem => refuse(s"user $name $problem"), identity)
    }
  }

  private def user(
      name: String,
      entries: Map[String, String],
      strictByDefault: Boolean
  ): Either[String, User] = for {
    secret <- entries.get("secret").filter(_.length >= MinSecretLength)
      .toRight(s"needs a secret of at least $MinSecretLength characters")
    isAdmin <- flag(entries, "admin", default = false)
    isStrict <- flag(entries, "strict", strictByDefault)
    from <- ranges(entries.getOrElse("whitelist", ""))
    grants <- grants(entries -- Seq("secret", "admin", "strict", "whitelist"))
  } yield User(name, new Secret(secret), isAdmin, isStrict, from, grants)

  private def flag(
      entries: Map[String, String],
      name: String,
      default: Boolean
  ): Either[String, Boolean] =
    entries
      .get(name)
      .fold[Option[Boolean]](Some(default))(_.toBooleanOption)
      .toRight(s"has a flag $name that is neither true nor false")

  private def ranges(text: String): Either[String, Seq[AddressRange]] = {
    val parts = text.split(',').toSeq.map(_.trim).filter(_.nonEmpty)
    parts
      .find(part => AddressRange.parse(part).isEmpty)
      .map(part =>
        s"has '$part' in its whitelist, an address or a range like 10.0.0.0/8 is expected"
      )
      .toLeft(parts.flatMap(part => AddressRange.parse(part)))
  }

  private def grants(entries: Map[String, String]): Either[String, Map[Resource, Set[Action]]] =
    entries.toSeq.foldLeft[Either[String, Map[Resource, Set[Action]]]](Right(Map.empty)) {
      case (Left(problem), _) => Left(problem)
      case (Right(found), (key, value)) =>
        for {
          resource <- resource(key)
          actions <-
            actions(value).toRight(s"has '$value' for $key, PUB, SUB, PUB|SUB or DENY is expected")
        } yield found.updated(resource, actions)
    }

  private def resource(key: String): Either[String, Resource] = {
    val found = for {
      dot <- Some(key.indexOf('.')).filter(_ > 0)
      kind <- ResourceKind.all.find(_.name == key.substring(0, dot))
      name = key.substring(dot + 1)
      if name.nonEmpty && !name.dropRight(1).contains('*')
    } yield Resource(kind, name)
    found.toRight(
      s"has '$key', secret, admin, strict, whitelist, topic.NAME, group.NAME or kv.NAME is expected"
    )
  }

  private def actions(value: String): Option[Set[Action]] = {
    val names = value.split('|').toSeq.map(_.trim)
    val known = names.flatMap(name => Action.all.find(_.name == name))
    if (names == Seq("DENY")) Some(Set.empty)
    else Option.when(known.length == names.length)(known.toSet)
  }
}
