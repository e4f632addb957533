package rmqordered.config

import java.io.StringReader
import java.util.Properties

import scala.jdk.CollectionConverters._

import rmqordered.util.Nearest

/** A configuration that cannot be used; the message is one sentence for the operator. */
final class ConfigError(message: String) extends Exception(message)

/**
 * The broker's settings, parsed once and immutable. `config(Settings.brokerName)` is the typed
 * value; nobody downstream sees a string map.
 */
final class BrokerConfig private (values: Map[Setting[_], Any]) {

  def apply[T](setting: Setting[T]): T = values(setting).asInstanceOf[T]

  override def equals(other: Any): Boolean = other match {
    case that: BrokerConfig => Settings.all.forall(setting => this(setting) == that(setting))
    case _ => false
  }

  override def hashCode: Int = values.hashCode
}

object BrokerConfig {

  // A record is its body plus envelope, topic and at most 32 KiB of properties; RocketMQ allows 64 KiB.
  private val RecordOverheadBytes = 64 * 1024
  private val ConsumeQueueUnitBytes = 20

  val defaults: BrokerConfig = of(Map.empty)

  /**
   * Parses settings by name; absent ones take their defaults.
   *
   * @throws ConfigError
   *   naming the first key or value that is wrong
   */
  def of(texts: Map[String, String]): BrokerConfig = {
    texts.keys.toSeq.sorted.find(key => !Settings.all.exists(_.name == key)).foreach(refuseUnknown)
    val values = Settings.all.map { setting =>
      val text = texts.getOrElse(setting.name, setting.default)
      val value = setting.parse(text).fold(sentence => throw new ConfigError(sentence), identity)
      (setting: Setting[_]) -> (value: Any)
    }
    val config = new BrokerConfig(values.toMap)
    ensureCombination(config)
    config
  }

  /** Reads java-properties text into names and values, without judging them. */
  def parseProperties(text: String): Map[String, String] = {
    val properties = new Properties()
    try properties.load(new StringReader(text))
    catch {
      case error: IllegalArgumentException =>
        throw new ConfigError(
          s"The configuration is not java-properties text: ${error.getMessage}."
        )
    }
    properties.asScala.toMap
  }

  private def refuseUnknown(key: String): Nothing = {
    val hint = Nearest.to(key, Settings.all.map(_.name)).fold("")(name => s" Did you mean $name?")
    throw new ConfigError(s"Unknown setting '$key'.$hint")
  }

  private def ensureCombination(config: BrokerConfig): Unit = {
    val logFile = config(Settings.mappedFileSizeCommitLog)
    val largestRecord = config(Settings.maxMessageSize) + RecordOverheadBytes
    if (logFile < largestRecord)
      throw new ConfigError(
        s"Setting mappedFileSizeCommitLog must be at least maxMessageSize + $RecordOverheadBytes = $largestRecord, found $logFile."
      )
    val largestFrame = config(Settings.maxFrameBytes)
    val biggestPayload = Math.max(config(Settings.maxMessageSize), config(Settings.maxPullBytes))
    if (largestFrame < biggestPayload + RecordOverheadBytes)
      throw new ConfigError(
        s"Setting maxFrameBytes must leave room for maxMessageSize and maxPullBytes plus $RecordOverheadBytes, found $largestFrame."
      )
    if (config(Settings.mappedFileSizeConsumeQueue) % ConsumeQueueUnitBytes != 0)
      throw new ConfigError(
        s"Setting mappedFileSizeConsumeQueue must be a multiple of $ConsumeQueueUnitBytes."
      )
  }
}
