package rmqordered.net

import java.util.concurrent.TimeUnit

import io.netty.buffer.Unpooled
import io.netty.channel.ChannelOutboundBuffer
import io.netty.channel.embedded.EmbeddedChannel

class UnsentLimitSuite extends munit.FunSuite {
  private def write(channel: EmbeddedChannel, bytes: Int): Unit = {
    val _ = channel.write(Unpooled.wrappedBuffer(new Array[Byte](bytes)))
  }

  test("a connection with unsent bytes is full while all together have too many") {
    val all = new Unsent(400L)
    val (slow, other) =
      (new EmbeddedChannel(new UnsentLimit(all)), new EmbeddedChannel(new UnsentLimit(all)))
    write(slow, 100)
    assert(slow.isWritable, "the limit itself is allowed")
    write(slow, 1)
    assert(!slow.isWritable)
    assert(other.isWritable, "who has nothing unsent waits for nobody")
    write(other, 1)
    assert(!other.isWritable)
    other.flush()
    assert(other.isWritable, "its client has taken everything")
    slow.flush()
    assert(slow.isWritable)
    write(other, 50)
    assert(other.isWritable, "there is room again")
    Seq(slow, other).foreach(_.finishAndReleaseAll())
  }

  test("what a lost connection had not sent counts no more") {
    val all = new Unsent(400L)
    val lost = new EmbeddedChannel(new UnsentLimit(all))
    write(lost, 399)
    assert(all.isCrowded)
    lost.close()
    assert(!all.isCrowded)
    lost.finishAndReleaseAll()
  }

  /** A channel whose peer takes something only when it is told to. */
  private final class Peer(periodMs: Long) {
    private val all = new Unsent(1000000L)
    private var isTaking = false
    val channel: EmbeddedChannel = new EmbeddedChannel(new UnsentLimit(all, periodMs)) {
      override def doWrite(in: ChannelOutboundBuffer): Unit = if (isTaking) super.doWrite(in)
    }
    channel.freezeTime()

    def send(): Unit = {
      val _ = channel.write(Unpooled.wrappedBuffer(new Array[Byte](10)))
      channel.flush()
    }

    def take(): Unit = {
      isTaking = true
      channel.flush()
      isTaking = false
    }

    def pass(millis: Long): Unit = {
      channel.advanceTimeBy(millis, TimeUnit.MILLISECONDS)
      channel.runScheduledPendingTasks()
      channel.runPendingTasks()
    }
  }

  test("a peer that takes nothing for a whole period is closed, whatever it is sent meanwhile") {
    val peer = new Peer(1000)
    peer.send()
    peer.pass(1000)
    assert(peer.channel.isOpen, "it may have taken something before the first look")
    peer.send()
    peer.pass(999)
    peer.send()
    assert(peer.channel.isOpen)
    peer.pass(1)
    assert(!peer.channel.isOpen)
    peer.channel.finishAndReleaseAll()
  }

  test("a peer that takes something now and then stays, and so does one that is sent nothing") {
    val peer = new Peer(1000)
    (0 until 10).foreach { _ =>
      peer.send()
      peer.pass(900)
      peer.take()
      peer.send()
      peer.pass(900)
      assert(peer.channel.isOpen)
      peer.take()
    }
    peer.pass(100000)
    assert(peer.channel.isOpen)
    peer.channel.finishAndReleaseAll()
  }
}
