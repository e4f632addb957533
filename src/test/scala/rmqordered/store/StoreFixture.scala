package rmqordered.store

import java.nio.file.{Files, Path}
import java.util.concurrent.{CompletableFuture, TimeUnit}

import rmqordered.config.BrokerConfig
import rmqordered.model.{HostAddress, QueueKey, TagFilter, TopicConfig}
import rmqordered.protocol.{RecordContent, RecordEnvelope, RecordReader, Slice}
import rmqordered.util.{Clock, ManualClock}

/** A store in a fresh folder that can be closed, crashed and opened again. */
final class StoreFixture(val folder: Path, settings: Map[String, String] = StoreFixture.small) {
  import StoreFixture._

  val clock = new ManualClock()
  @volatile var arrivals = Vector.empty[QueueKey]

  final class Opened(val store: MessageStore, directory: DataDirectory) {

    def append(topic: String, queueId: Int, bodies: String*): AppendOutcome = {
      val outcome = new CompletableFuture[AppendOutcome]()
      store.append(envelope(topic, queueId), bodies.map(content(_)).toVector)(o => {
        val _ = outcome.complete(o)
      })
      outcome.get(10, TimeUnit.SECONDS)
    }

    def close(): Unit = {
      store.close()
      directory.close()
    }

    def bodies(topic: String, queueId: Int): Seq[String] = {
      val key = QueueKey(topic, queueId)
      val everything = ReadRequest(0L, ReadLimits(100000, 1 << 28, 100000), TagFilter.Everything)
      records(store.read(key, everything)).map(r => new String(r.content.body.toArray, "UTF-8"))
    }
  }

  def open(
      openClock: Clock = clock,
      files: FileLayer = DiskFiles,
      followers: Seq[LogFollower] = Nil
  ): Opened = {
    val directory = DataDirectory.open(folder, files)
    val topics = new TopicTable(directory.table("topics"), Nil)
    try {
      val store = new MessageStore(
        directory,
        BrokerConfig.of(settings),
        topics,
        openClock,
        (key, _) => synchronized { arrivals = arrivals :+ key },
        followers = followers
      )
      new Opened(store, directory)
    } catch {
      case error: Throwable =>
        directory.close()
        throw error
    }
  }

  def use[T](body: Opened => T): T = {
    val opened = open()
    try body(opened)
    finally opened.close()
  }

  /** What the next process finds after kill -9: the folder as it was while the store was open. */
  def crash[T](body: Opened => T): (StoreFixture, T) = {
    val opened = open()
    try {
      val result = body(opened)
      (copy(), result)
    } finally opened.close()
  }

  /** The same files in another folder. */
  def copy(): StoreFixture = {
    val target = new StoreFixture(temporaryFolder(), settings)
    val paths = Files.walk(folder)
    try
      paths.forEach { path =>
        val to = target.folder.resolve(folder.relativize(path).toString)
        if (Files.isDirectory(path)) { val _ = Files.createDirectories(to) }
        else { val _ = Files.copy(path, to) }
      }
    finally paths.close()
    target
  }

  def segment(baseOffset: Long): Path =
    folder.resolve("commitlog").resolve(MappedSegment.fileName(baseOffset))
}

object StoreFixture {
  val SimulatedRoot: Path = Path.of("/simulated")

  /** A store with the topic `orders` on a disk that is simulated, without threads of its own. */
  def onSimulatedDisk(
      disk: SimulatedDisk,
      settings: Map[String, String] = small
  ): MessageStore = {
    val directory = DataDirectory.open(SimulatedRoot, disk)
    val topics = new TopicTable(directory.table("topics"), Nil)
    if (!topics.contains("orders")) topics.put(topic)
    new MessageStore(
      directory,
      BrokerConfig.of(settings),
      topics,
      new ManualClock(),
      (_, _) => (),
      background = false
    )
  }

  /** Small files, so that a test sees many of them. */
  val small: Map[String, String] = Map(
    "mappedFileSizeCommitLog" -> "70000",
    "mappedFileSizeConsumeQueue" -> "200",
    "maxMessageSize" -> "4096"
  )

  val topic: TopicConfig = TopicConfig("orders", 4, 4)
  private val host = new HostAddress(Array[Byte](127, 0, 0, 1), 9876)

  def envelope(topic: String, queueId: Int): RecordEnvelope =
    RecordEnvelope(topic, queueId, 0, 1L, host, host, 0)

  def content(body: String, tag: String = ""): RecordContent = {
    val properties = if (tag.isEmpty) "" else s"TAGS\u0001$tag\u0002"
    new RecordContent(0, Slice(body.getBytes("UTF-8")), Slice(properties.getBytes("UTF-8")))
  }

  def keyed(body: String, keys: String, uniqueKey: String = ""): RecordContent = {
    val unique = if (uniqueKey.isEmpty) "" else s"UNIQ_KEY\u0001$uniqueKey\u0002"
    val properties = s"${unique}KEYS\u0001$keys\u0002"
    new RecordContent(0, Slice(body.getBytes("UTF-8")), Slice(properties.getBytes("UTF-8")))
  }

  def records(result: ReadResult): Seq[rmqordered.protocol.DecodedRecord] = {
    val bytes = java.nio.ByteBuffer.wrap(result.messages.toArray)
    Iterator
      .unfold(0) { at =>
        RecordReader.read(bytes, at) match {
          case RecordReader.Found(record) => Some((record, at + record.size))
          case _ => None
        }
      }
      .toSeq
  }

  private lazy val root: Path = {
    val made = Files.createTempDirectory("rmq-ordered-test")
    Runtime.getRuntime.addShutdownHook(new Thread(() => deleteTree(made)))
    made
  }

  /** A fresh folder that goes with the test process. */
  def temporaryFolder(): Path = Files.createTempDirectory(root, "data")

  def temporaryFile(): Path = Files.createTempFile(root, "file", "")

  def deleteTree(folder: Path): Unit = {
    val paths = Files.walk(folder)
    try paths.sorted(java.util.Comparator.reverseOrder[Path]()).forEach(path => Files.delete(path))
    finally paths.close()
  }
}
