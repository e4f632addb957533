package rmqordered.protocol

import java.net.InetSocketAddress

import com.fasterxml.jackson.databind.JsonNode

import scala.util.Random

import rmqordered.model.HostAddress

class StoredRecordSuite extends munit.FunSuite {

  private def host(text: String): HostAddress = {
    val colon = text.lastIndexOf(':')
    val name = text.substring(0, colon).stripPrefix("[").stripSuffix("]")
    HostAddress.of(new InetSocketAddress(name, text.substring(colon + 1).toInt))
  }

  private def envelope(message: JsonNode): RecordEnvelope = RecordEnvelope(
    topic = message.get("topic").asText(),
    queueId = message.get("queueId").asInt(),
    sysFlag = message.get("sysFlag").asInt(),
    bornTimestamp = message.get("bornTimestamp").asLong(),
    bornHost = host(message.get("bornHost").asText()),
    storeHost = host(message.get("storeHost").asText()),
    reconsumeTimes = message.get("reconsumeTimes").asInt(),
    preparedTransactionOffset = message.get("preparedTransactionOffset").asLong()
  )

  private def content(message: JsonNode): RecordContent = {
    val properties = MessageProperties.encode(Golden.properties(message.get("properties")))
    new RecordContent(
      message.get("flag").asInt(),
      Slice(Golden.bytes(message.get("bodyHex").asText())),
      Slice(properties.getBytes("UTF-8"))
    )
  }

  private def position(message: JsonNode): RecordPosition = RecordPosition(
    message.get("queueOffset").asLong(),
    message.get("commitLogOffset").asLong(),
    message.get("storeTimestamp").asLong()
  )

  Golden.cases("messages.json").foreach { golden =>
    val name = golden.get("name").asText()
    val message = golden.get("message")
    val hex = golden.get("hex").asText()

    test(s"golden record, encoded: $name") {
      val encoded = StoredRecord.encode(envelope(message), content(message), position(message))
      assertEquals(Golden.hex(encoded), hex)
      assertEquals(StoredRecord.size(envelope(message), content(message)), encoded.length)
      assertEquals(content(message).bodyCrc, message.get("bodyCrc").asInt())
    }

    test(s"golden record, decoded: $name") {
      val decoded = RecordReader.decode(Golden.bytes(hex))
      assertEquals(decoded.envelope, envelope(message))
      assertEquals(decoded.position, position(message))
      assertEquals(decoded.content.flag, message.get("flag").asInt())
      assertEquals(Golden.hex(decoded.content.body.toArray), message.get("bodyHex").asText())
      val properties =
        MessageProperties.decode(new String(decoded.content.properties.toArray, "UTF-8"))
      assertEquals(properties.toSeq, Golden.properties(message.get("properties")))
    }

    test(s"golden record, cut at every point: $name") {
      val bytes = Golden.bytes(hex)
      bytes.indices.foreach { length =>
        intercept[ProtocolError](RecordReader.decode(bytes.take(length)))
      }
    }
  }

  test("the store timestamp is found where the born host ends") {
    Golden.cases("messages.json").foreach { golden =>
      val bytes = Golden.bytes(golden.get("hex").asText())
      val message = golden.get("message")
      val at = StoredRecord.storeTimestampAt(message.get("sysFlag").asInt())
      val found = java.nio.ByteBuffer.wrap(bytes).getLong(at)
      assertEquals(found, message.get("storeTimestamp").asLong())
    }
  }

  test("a changed body byte is found by the checksum") {
    val golden = Golden.cases("messages.json").head
    val bytes = Golden.bytes(golden.get("hex").asText())
    bytes(88) = (bytes(88) ^ 1).toByte
    val problem = intercept[ProtocolError](RecordReader.decode(bytes)).getMessage
    assert(problem.startsWith("body checksum"), problem)
  }

  test("garbage gives an outcome, never an exception") {
    val random = new Random(11)
    val samples = Golden.cases("messages.json").map(c => Golden.bytes(c.get("hex").asText()))
    (1 to 20000).foreach { i =>
      val bytes = samples(i % samples.length).clone()
      (0 to random.nextInt(4)).foreach(_ =>
        bytes(random.nextInt(bytes.length)) = random.nextInt().toByte
      )
      RecordReader.read(java.nio.ByteBuffer.wrap(bytes), 0) match {
        case RecordReader.Found(record) => assertEquals(record.size, bytes.length)
        case RecordReader.Blank(_) | RecordReader.Nothing | RecordReader.Bad(_) => ()
      }
    }
  }

  test("an offset message id is store host, port and commit log offset in hexadecimal") {
    assertEquals(
      MessageId.offsetMessageId(host("10.0.0.2:10911"), 4096L),
      "0A00000200002A9F0000000000001000"
    )
  }

  test("the ids of a batch are the ids of its messages with commas between them") {
    val random = new Random(5L)
    Seq("10.0.0.2:10911", "[2001:db8::1]:9876").map(host).foreach { stored =>
      Seq(1, 2, 100).foreach { count =>
        val offsets = Array.fill(count)(random.nextLong() & Long.MaxValue)
        assertEquals(
          MessageId.offsetMessageIds(stored, offsets),
          offsets.map(MessageId.offsetMessageId(stored, _)).mkString(",")
        )
      }
    }
  }
}
