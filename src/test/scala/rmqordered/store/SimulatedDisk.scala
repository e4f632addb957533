package rmqordered.store

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.file.Path

import scala.collection.mutable
import scala.util.Random

/** The power went off in the middle of something. */
final class PowerFailure extends RuntimeException("the power is off")

/**
 * A disk that can lose power. Each file has two contents: what the page cache holds and what is on
 * the platter. Writes change the cache; `force` brings a range to the platter; between the two any
 * sector may get there by itself, whole or torn at any byte, in any order, also in a version that
 * is overwritten later. Names work alike: a folder's changes are on the platter after
 * `forceFolder`, each may get there before that.
 *
 * `failAt(n)` lets the power fail in the middle of the n-th operation from now; `crash` loses it
 * now. Both leave what a machine would find after the reboot.
 */
final class SimulatedDisk(random: Random, sectorBytes: Int = 512) extends FileLayer {
  import SimulatedDisk._

  private var names = Map.empty[Path, Inode]
  private var platterNames = Map.empty[Path, Inode]
  private val folders = mutable.Set.empty[Path]
  private var countdown = -1
  private var isOff = false
  var usable: Long = Long.MaxValue

  /** Called in the middle of each force. */
  @volatile var onForce: () => Unit = () => ()

  /** Whether the power failed since the last crash. */
  def hasFailed: Boolean = isOff

  /** Lets the power fail within the n-th operation from now. */
  def failAt(n: Int): Unit = countdown = n

  /** What is on the platter after the power comes back. */
  def crash(): Unit = {
    unsettledNames.foreach(path => if (random.nextBoolean()) settleName(path))
    names = platterNames
    // A name that came back brings its folder with it.
    names.keys.foreach(path => createFolder(path.getParent, isForced = true))
    inodes.foreach { inode =>
      settleSome(inode)
      inode.forgetCache()
    }
    countdown = -1
    isOff = false
  }

  /** Each disk has its ways: few or many sectors, here and there or a stretch of neighbours. */
  private def settleSome(inode: Inode): Unit = {
    val dirty = inode.dirtySectors(sectorBytes).toVector
    if (random.nextInt(3) == 0) {
      val from = random.nextInt(dirty.length + 1)
      val stretch = dirty.slice(from, from + random.nextInt(dirty.length + 1))
      stretch.foreach(sector => inode.settle(sector * sectorBytes, sectorBytes))
    } else {
      val likely = Seq(0.05, 0.4, 0.8, 0.95)(random.nextInt(4))
      dirty.foreach { sector =>
        val isTorn = random.nextInt(10) == 0
        val length = if (isTorn) random.nextInt(sectorBytes) else sectorBytes
        if (random.nextDouble() < likely) inode.settle(sector * sectorBytes, length)
      }
    }
  }

  /** What the kernel does at any time: writes back some of what is dirty. */
  def writeBackSome(): Unit = {
    inodes.foreach { inode =>
      inode.dirtySectors(sectorBytes).foreach { sector =>
        if (random.nextInt(3) == 0) inode.settle(sector * sectorBytes, sectorBytes)
      }
    }
    unsettledNames.foreach(path => if (random.nextInt(3) == 0) settleName(path))
  }

  // In a fixed order, or a seed would not mean the same twice.
  private def unsettledNames: Seq[Path] =
    names.keySet.union(platterNames.keySet).filter(path =>
      names.get(path) != platterNames.get(path)
    ).toSeq.sorted

  private def inodes: Seq[Inode] = names.toSeq.sortBy(_._1).map(_._2).distinct

  private def settleName(path: Path): Unit = platterNames = names.get(path) match {
    case Some(inode) => platterNames.updated(path, inode)
    case None => platterNames - path
  }

  /** An operation: the power may fail before it, or (for `partial`) within it. */
  private def operation[T](partial: => Unit)(whole: => T): T = {
    if (isOff) throw new PowerFailure
    if (countdown == 0) {
      isOff = true
      partial
      throw new PowerFailure
    }
    if (countdown > 0) countdown -= 1
    whole
  }

  private def inode(file: Path): Inode =
    names.getOrElse(file, throw new IOException(s"no file $file"))

  override def map(file: Path, capacity: Int): MappedFile = operation(()) {
    if (!folders.contains(file.getParent)) throw new IOException(s"no folder ${file.getParent}")
    val found = names.get(file).filter(_.size > 0).getOrElse {
      val made = new Inode(capacity)
      names = names.updated(file, made)
      made
    }
    new MappedFile {
      override val bytes: ByteBuffer = ByteBuffer.wrap(found.cache)
      override def force(from: Int, length: Int): Unit = {
        // In the middle of a force a part of the range is there.
        def some(): Unit = found.settle(from, random.nextInt(length + 1))
        onForce()
        operation(some())(found.settle(from, length))
      }
      override def noteRead(length: Int): Unit = ()
      override def noteWrite(length: Int): Unit = ()
    }
  }

  override def zero(file: Path, from: Int, until: Int): Unit = operation(()) {
    java.util.Arrays.fill(inode(file).cache, from, until, 0.toByte)
  }

  override def cut(file: Path, position: Int): Unit = operation(()) {
    val found = inode(file)
    java.util.Arrays.fill(found.cache, position, found.size, 0.toByte)
    found.settle(0, found.size)
  }

  override def read(file: Path): Option[Array[Byte]] = names.get(file).map(_.cache.clone())

  override def write(file: Path, content: Array[Byte]): Unit = {
    def torn(): Unit = {
      val half = new Inode(content.length)
      System.arraycopy(content, 0, half.cache, 0, random.nextInt(content.length + 1))
      half.settle(0, half.size)
      names = names.updated(file, half)
    }
    operation(torn()) {
      val made = new Inode(content.length)
      System.arraycopy(content, 0, made.cache, 0, content.length)
      made.settle(0, made.size)
      names = names.updated(file, made)
    }
  }

  override def move(from: Path, to: Path): Unit = operation(()) {
    names = names.updated(to, inode(from)) - from
  }

  override def link(from: Path, to: Path): Unit = operation(()) {
    if (names.contains(to)) throw new IOException(s"$to exists")
    names = names.updated(to, inode(from))
  }

  override def delete(file: Path): Unit = operation(()) { names = names - file }

  override def deleteTree(root: Path): Unit = {
    def some(): Unit =
      names = names.filterNot { case (path, _) => path.startsWith(root) && random.nextBoolean() }
    operation(some()) {
      names = names.filterNot(_._1.startsWith(root))
      folders.filterInPlace(!_.startsWith(root))
    }
  }

  override def exists(path: Path): Boolean = names.contains(path) || folders.contains(path)

  override def list(folder: Path): Seq[String] =
    (names.keys ++ folders).filter(_.getParent == folder).map(_.getFileName.toString).toSeq.distinct

  override def createFolder(folder: Path, isForced: Boolean): Unit = {
    folders += folder
    if (folder.getParent != null) createFolder(folder.getParent, isForced)
  }

  override def forceFolder(folder: Path): Unit = operation(()) {
    names.keySet.union(platterNames.keySet).filter(_.getParent == folder).foreach(settleName)
  }

  override def usableBytes(folder: Path): Long = usable

  override def lock(file: Path): Option[AutoCloseable] = Some(() => ())

  /** Damages a file as neither this program nor a power failure would. */
  def damage(file: Path, at: Int): Unit = {
    val found = inode(file)
    found.cache(at) = (found.cache(at) ^ 0x55).toByte
    found.settle(at, 1)
  }

  def files: Set[Path] = names.keySet
}

object SimulatedDisk {

  private final class Inode(val size: Int) {
    // A mapping shares the array, so it stays the same one until a crash.
    var cache = new Array[Byte](size)
    private val platter = new Array[Byte](size)

    def settle(from: Int, length: Int): Unit =
      System.arraycopy(cache, from, platter, from, Math.max(Math.min(length, size - from), 0))

    def dirtySectors(sectorBytes: Int): Iterator[Int] =
      (0 until (size + sectorBytes - 1) / sectorBytes).iterator.filter { sector =>
        val (from, until) = (sector * sectorBytes, Math.min((sector + 1) * sectorBytes, size))
        !java.util.Arrays.equals(cache, from, until, platter, from, until)
      }

    def forgetCache(): Unit = cache = platter.clone()
  }
}
