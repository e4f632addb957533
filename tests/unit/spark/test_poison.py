"""Bodies that cannot be decoded: fail, null with the reason, or dead letters; order is kept."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import DayTimeIntervalType, IntegerType, StringType, StructField, StructType
from tests.support.calls import ALL, read_all

from rmq_ordered.columnar import MESSAGE_COLUMNS
from rmq_ordered.errors import OptionError, RemoteProtocolError, UndecodableMessage
from rmq_ordered.model import MessageQueue
from rmq_ordered.options import SourceOptions, parse_rows
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.spark.rows import ensure_source_schema, source_schema
from rmq_ordered.spark.stream import OrderedStreamReader
from rmq_ordered.testing import ClusterDouble

OPTIONS = {"nameServer": "names-1:9876", "subscribe": "orders", "group": "billing"}
BODIES = [b'{"id":1}', b"poison", b'{"id":"3"}', b'{"id":4}']
NUMBER = StructType([StructField("id", IntegerType())])


def schema_of(**options: str) -> StructType:
    """The schema as Spark would make it of the source's text."""
    rows = parse_rows(OPTIONS | options)
    fields = dict.fromkeys(MESSAGE_COLUMNS, StringType())
    from pyspark.sql.types import LongType, TimestampType

    fields |= {"queue": IntegerType(), "offset": LongType(), "timestamp": TimestampType(),
               "born_timestamp": TimestampType(), "reconsume_times": IntegerType(),
               "value": NUMBER}  # fmt: skip
    if "_error" in source_schema(rows):
        fields["_error"] = StringType()
    return StructType([StructField(name, kind) for name, kind in fields.items()])


@pytest.fixture
def poisoned(cluster: ClusterDouble, queues: tuple[MessageQueue, ...]) -> MessageQueue:
    """The first queue with one good, two bad and one good message."""
    stored = cluster.brokers[0].queues[queues[0]]
    stored.messages = [
        replace(message, body=body) for message, body in zip(stored.messages, BODIES, strict=False)
    ]
    return queues[0]


def read(queue: MessageQueue, **options: str) -> list[dict[str, Any]]:
    """The rows of the first queue."""
    given = {"valueFormat": "json", "valueSchema": "id int"} | options
    parsed = SourceOptions.parse(OPTIONS | given, streaming=True)
    reader = OrderedStreamReader(parsed, schema_of(**given))
    try:
        start = reader.initialOffset()
        planned = reader.partitions(start, reader.latestOffset(start, ALL))
        return read_all(reader, planned[:1])
    finally:
        reader.stop()


def test_a_poisoned_message_fails_the_query_by_default_and_is_named(poisoned: MessageQueue) -> None:
    with pytest.raises(
        UndecodableMessage, match=r"orders@broker-a#0 at queue offset 1 .*not JSON.*onDecodeError"
    ):
        read(poisoned)


def test_a_poisoned_message_can_be_a_row_with_its_reason(poisoned: MessageQueue) -> None:
    rows = read(poisoned, onDecodeError="null")
    assert [(row["offset"], row["value"]) for row in rows] == [
        (0, {"id": 1}),
        (1, None),
        (2, None),
        (3, {"id": 4}),
    ]
    reasons = [row["_error"] for row in rows]
    assert (reasons[0], reasons[3]) == (None, None)
    assert "not JSON" in reasons[1]
    assert reasons[2] == "value.id: expected an integer, found '3'"


def test_a_poisoned_message_can_go_to_the_dead_letters(
    cluster: ClusterDouble, poisoned: MessageQueue, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[RemotingCommand] = []
    serve = cluster.brokers[0].serve

    def bury(request: RemotingCommand) -> RemotingCommand:
        if request.code != RequestCode.CONSUMER_SEND_MSG_BACK:
            return serve(request)
        asked.append(request)
        return RemotingCommand(ResponseCode.SUCCESS)

    cluster.network.listen(cluster.brokers[0].address, bury)
    with caplog.at_level(logging.WARNING, "rmq_ordered.spark"):
        rows = read(poisoned, onDecodeError="dlq")
    assert [row["offset"] for row in rows] == [0, 3]
    assert [(one.ext("offset"), one.ext("group"), one.ext("delayLevel")) for one in asked] == [
        ("1000", "billing", "-1"),
        ("2000", "billing", "-1"),
    ]
    assert "dead letters count=2 queue=orders@broker-a#0" in caplog.text


def test_a_damaged_body_follows_the_same_policy(
    monkeypatch: pytest.MonkeyPatch, poisoned: MessageQueue
) -> None:
    import rmq_ordered.testing.storage as storage

    encode = storage.encode_message

    def damage(message: Any) -> bytes:
        record = encode(message)
        return record.replace(b'{"id":4}', b'{"id":5}')

    monkeypatch.setattr(storage, "encode_message", damage)
    rows = read(poisoned, onDecodeError="null")
    assert rows[3]["value"] is None
    assert "CRC" in rows[3]["_error"] or "checksum" in rows[3]["_error"]
    with pytest.raises(RemoteProtocolError, match="orders@broker-a#0"):
        read(poisoned, valueFormat="json")


@pytest.mark.parametrize(
    ("options", "value", "extra"),
    [
        ({}, "value binary", ""),
        ({"valueFormat": "string"}, "value string", ""),
        (
            {"valueFormat": "msgpack", "valueSchema": "id int, at timestamp"},
            "value struct<id int, at timestamp>",
            "",
        ),
        ({"includeProperties": "true"}, "value binary", ", properties map<string,string>"),
        ({"onDecodeError": "null"}, "value binary", ", _error string"),
    ],
)
def test_the_columns_follow_the_options(options: dict[str, str], value: str, extra: str) -> None:
    text = source_schema(parse_rows(OPTIONS | options))
    assert text.startswith(f"key string, {value}, topic string")
    assert text.endswith(f"reconsume_times int{extra}")


def test_a_schema_of_ones_own_is_refused() -> None:
    rows = parse_rows(OPTIONS)
    with pytest.raises(Exception, match="no schema of your own"):
        ensure_source_schema(NUMBER, rows)
    ensure_source_schema(schema_of(), rows)


@pytest.mark.parametrize("value_format", ["json", "msgpack"])
def test_a_type_that_no_body_holds_is_refused_with_the_columns(value_format: str) -> None:
    rows = parse_rows(OPTIONS | {"valueFormat": value_format, "valueSchema": "id int"})
    ensure_source_schema(schema_of(), rows)
    took = StructType([StructField("took", DayTimeIntervalType())])
    schema = schema_of()
    schema["value"].dataType = took
    with pytest.raises(OptionError, match=r"types that JSON .* found 'value\.took "):
        ensure_source_schema(schema, rows)
