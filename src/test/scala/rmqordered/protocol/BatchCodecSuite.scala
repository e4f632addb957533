package rmqordered.protocol

import scala.jdk.CollectionConverters._
import scala.util.Random

class BatchCodecSuite extends munit.FunSuite {
  private val Before = 3

  // As in a frame: other bytes stand before and after.
  private def framed(batch: Array[Byte]): Slice =
    new Slice(new Array[Byte](Before) ++ batch ++ batch, Before, batch.length)

  Golden.cases("batches.json").foreach { golden =>
    test(s"golden batch, decoded: ${golden.get("name").asText()}") {
      val records = BatchCodec.decode(framed(Golden.bytes(golden.get("hex").asText())))
      val expected = golden.get("messages").elements().asScala.toVector
      assertEquals(records.map(_.flag), expected.map(_.get("flag").asInt()))
      assertEquals(
        records.map(r => Golden.hex(r.body.toArray)),
        expected.map(_.get("bodyHex").asText())
      )
      assertEquals(
        records.map(r => MessageProperties.decode(new String(r.properties.toArray, "UTF-8")).toSeq),
        expected.map(m => Golden.properties(m.get("properties")))
      )
    }

    test(s"golden batch, cut at every point: ${golden.get("name").asText()}") {
      val whole = framed(Golden.bytes(golden.get("hex").asText()))
      val ends = BatchCodec.decode(whole).map(r => r.properties.end - Before)
      (0 until whole.length).filterNot(ends.contains).foreach { length =>
        intercept[ProtocolError](BatchCodec.decode(new Slice(whole.bytes, Before, length)))
      }
    }
  }

  test("garbage gives records or a ProtocolError, nothing else") {
    val random = new Random(3)
    val sample = Golden.bytes(Golden.cases("batches.json").last.get("hex").asText())
    (1 to 20000).foreach { _ =>
      val bytes = sample.clone()
      (0 to random.nextInt(4)).foreach(_ =>
        bytes(random.nextInt(bytes.length)) = random.nextInt().toByte
      )
      try BatchCodec.decode(framed(bytes))
      catch { case _: ProtocolError => () }
    }
  }
}
