package rmqordered.net

import io.netty.buffer.Unpooled
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
}
