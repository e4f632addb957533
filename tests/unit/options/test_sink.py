"""The sink's options."""

import pickle

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SINK_OPTIONS, ConnectionOptions, SinkOptions, ValueFormat
from rmq_ordered.options.connection import SECURITY_OPTIONS

SINK = {"nameServer": "mq1:9876", "topic": "invoices"}
BAD_DURATIONS = ["", "0", "0s", "-1s", "1.5s", "s", "5x", "5sm", "5 s", "soon", "8761h",
                 "31536000001", str(2**63)]  # fmt: skip
BAD_BYTES = ["", "0", "-1", "1.5", "m", "1t", "many", "9223372036854775807g", f"{2**53}k"]
BAD_VALUES: dict[str, list[str]] = {
    "nameServer": ["", ";", "mq1", "mq1:", ":9876", "mq1:0", "mq1:65536", "mq1:x", "mq1:1;mq2"],
    "topic": ["", " ", "a b", "a/b", "a,b c", "ä", "a" * 128],
    "selector": ["", "random", "round robin"],
    "keyColumn": ["", " "],
    "sequenceColumn": ["", " "],
    "valueFormat": ["", "avro", "text"],
    "compression": ["", "gzip", "true"],
    "compressOverBytes": BAD_BYTES,
    "batchBytes": [*BAD_BYTES, "5m", "4194305"],
    "bufferBytes": BAD_BYTES,
    "idempotent": ["", "yes", "1"],
    "onReplayDivergence": ["", "skip", "ignore"],
    "onQueueLayoutChange": ["", "resend", "ignore"],
    "sinkId": ["", "a b", "a.b", "a/b", "ä", "a" * 59],
    "batchId": ["", "-1", "1.5", "x", "1" * 18],
    "requestTimeout": BAD_DURATIONS,
    "sendTimeout": BAD_DURATIONS,
}
BAD = [(name, bad) for name, values in BAD_VALUES.items() for bad in values]


def test_every_option_is_tested_with_wrong_values() -> None:
    elsewhere = {option.name for option in SECURITY_OPTIONS}
    assert {option.name for option in SINK_OPTIONS} == set(BAD_VALUES) | elsewhere


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_a_wrong_value_is_refused_with_what_was_found_and_what_is_expected(
    name: str, bad: str
) -> None:
    with pytest.raises(OptionError) as caught:
        SinkOptions.parse(SINK | {name: bad})
    assert (caught.value.option, caught.value.found) == (name, bad)


def test_a_name_server_must_be_set_and_a_topic_may_be_a_column() -> None:
    with pytest.raises(OptionError, match=r"'nameServer'.*must be set"):
        SinkOptions.parse({"topic": "invoices"})
    assert SinkOptions.parse({"nameServer": "mq1:9876"}).topic is None


def test_without_more_the_documented_defaults_hold() -> None:
    connection = ConnectionOptions(("mq1:9876",), 3_000)
    assert SinkOptions.parse(SINK) == SinkOptions(connection, "invoices", 30_000)


def test_every_option_reaches_its_field() -> None:
    given = {
        "sendTimeout": "1m", "requestTimeout": "5s", "selector": "Consistent", "keyColumn": "order",
        "sequenceColumn": "number", "valueFormat": "msgpack", "compression": "zstd",
        "compressOverBytes": "1k", "batchBytes": "2m", "bufferBytes": "3000",
        "onReplayDivergence": "resend", "onQueueLayoutChange": "rehash", "sinkId": "billing-1",
        "batchId": "17",
    }  # fmt: skip
    options = SinkOptions.parse(SINK | given)
    assert options == SinkOptions(
        ConnectionOptions(("mq1:9876",), 5_000),
        "invoices",
        60_000,
        "consistent",
        "order",
        "number",
        ValueFormat.MSGPACK,
        "zstd",
        1_024,
        2 * 1024 * 1024,
        3_000,
        True,
        "resend",
        "rehash",
        "billing-1",
        17,
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert not SinkOptions.parse(SINK | {"idempotent": "false"}).idempotent


@pytest.mark.parametrize(("given", "missing"), [("sinkId", "batchId"), ("batchId", "sinkId")])
def test_an_identity_is_given_whole_or_not_at_all(given: str, missing: str) -> None:
    with pytest.raises(OptionError, match=f"'{missing}'.*because {given} is set"):
        SinkOptions.parse(SINK | {given: "1"})


def test_a_stream_has_its_own_identity() -> None:
    with pytest.raises(OptionError, match="only inside foreachBatch"):
        SinkOptions.parse(SINK | {"sinkId": "a", "batchId": "1"}, streaming=True)


def test_an_identity_needs_idempotence() -> None:
    with pytest.raises(OptionError, match="idempotent=true"):
        SinkOptions.parse(SINK | {"sinkId": "a", "batchId": "1", "idempotent": "false"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"compressOverBytes": "1k"}, "'compressOverBytes': expected a compression beside it"),
        (
            {"onReplayDivergence": "fail", "idempotent": "false"},
            "'onReplayDivergence': expected idempotent=true beside it",
        ),
    ],
)
def test_what_would_change_nothing_is_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        SinkOptions.parse(SINK | given)


def test_an_option_of_the_source_is_unknown_to_the_sink() -> None:
    with pytest.raises(OptionError, match="there is none of this name"):
        SinkOptions.parse(SINK | {"leaseMode": "none"})
