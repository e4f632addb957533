package rmqordered.protocol

import scala.jdk.CollectionConverters._
import scala.util.Random

class BatchCodecSuite extends munit.FunSuite {

  Golden.cases("batches.json").foreach { golden =>
    test(s"golden batch, decoded: ${golden.get("name").asText()}") {
      val records = BatchCodec.decode(Golden.bytes(golden.get("hex").asText()))
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
      val bytes = Golden.bytes(golden.get("hex").asText())
      val ends = BatchCodec.decode(bytes).map(r => r.properties.end)
      bytes.indices.filterNot(ends.contains).foreach { length =>
        intercept[ProtocolError](BatchCodec.decode(bytes.take(length)))
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
      try BatchCodec.decode(bytes)
      catch { case _: ProtocolError => () }
    }
  }
}
