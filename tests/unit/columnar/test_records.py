"""Rows to batch bodies, beside the encoder that does one message at a time."""

import numpy as np
import pytest

from rmq_ordered.columnar.digest import running_digests
from rmq_ordered.columnar.outgoing import OutgoingRows, rows_from_messages
from rmq_ordered.columnar.records import (
    RECORD_HEAD_BYTES,
    UNIQUE_KEY_BYTES,
    RecordIdentity,
    digest_bytes,
    encode_records,
)
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.protocol.compression import LZ4_FLAGS, ZLIB_FLAGS, ZSTD_FLAGS, expand_body
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.testing.storage import split_batch

QUEUE = MessageQueue("orders", "broker-a", 1)
MESSAGES = [
    OutgoingMessage(b"a" * 100, {"TAGS": "t", "__SHARDINGKEY": "k"}, 7),
    OutgoingMessage(b"", {}),
    OutgoingMessage("grün".encode(), {"farbe": "😀"}, -1),
]


def rows() -> OutgoingRows:
    return rows_from_messages(MESSAGES)


def test_a_stamped_batch_is_what_the_plain_encoder_writes() -> None:
    identity = RecordIdentity.of("sink/1/2", QUEUE, "sink/1/2/")
    digests = identity.told(running_digests(rows().hashes(), 9, 5))
    expected = []
    for number, message in enumerate(MESSAGES):
        stamp = {"RMQO_STAMP": f"sink/1/2/9/{int(digests[0]):016x}"} if number == 0 else {}
        unique = f"{identity.unique_prefix}{9 + number:010X}{int(digests[number]):010X}"
        properties = {**message.properties, **stamp, "UNIQ_KEY": unique}
        expected.append(OutgoingMessage(message.body, properties, message.flag))
        assert len(unique) == 32
    assert encode_records(rows(), identity, 9, digests) == encode_batch(expected)


def test_of_a_digest_as_much_is_told_as_a_unique_key_holds() -> None:
    digests = np.array([2**64 - 1, 2**40, 7], np.uint64)
    stamped, plain = (RecordIdentity.of("x", QUEUE, prefix) for prefix in ("x/0/0/", None))
    assert stamped.told(digests).tolist() == [2**40 - 1, 0, 7]
    assert plain.told(digests).tolist() == digests.tolist()


def test_more_rows_than_a_unique_key_can_number_are_refused() -> None:
    identity = RecordIdentity.of("x", QUEUE, "x/0/0/")
    digests = np.zeros(3, np.uint64)
    assert split_batch(encode_records(rows(), identity, 16**10 - 3, digests))
    with pytest.raises(LocalProtocolError, match="write several batches"):
        encode_records(rows(), identity, 16**10 - 2, digests)


def test_digests_stand_behind_a_batch_in_eight_bytes_each() -> None:
    identity = RecordIdentity.of("x", QUEUE, None)
    digests = np.array([1, 2**64 - 1, 256], np.uint64)
    behind = digest_bytes(digests)
    assert behind == bytes(7) + b"\x01" + b"\xff" * 8 + bytes(6) + b"\x01\x00"
    alone = encode_records(rows(), identity, 0, digests)
    assert encode_records(rows(), identity, 0, digests, behind=behind) == alone + behind


def test_without_a_stamp_there_is_only_the_unique_key() -> None:
    identity = RecordIdentity.of("name", QUEUE, None)
    first = split_batch(encode_records(rows(), identity, 255, None))[0]
    assert first.properties["UNIQ_KEY"] == identity.unique_prefix + "0000000000FF"
    assert "RMQO_STAMP" not in first.properties


def test_an_identity_depends_on_stream_and_queue_only() -> None:
    other = MessageQueue("orders", "broker-a", 2)
    here = RecordIdentity.of("sink/1/2", QUEUE, None)
    assert here == RecordIdentity.of("sink/1/2", QUEUE, None)
    assert len(here.unique_prefix) == 20
    assert here.unique_prefix != RecordIdentity.of("sink/1/2", other, None).unique_prefix
    assert here.unique_prefix != RecordIdentity.of("sink/1/3", QUEUE, None).unique_prefix


@pytest.mark.parametrize("prefix", [None, "s" * 64 + "/999999999999999999/0/"])
def test_the_bound_of_what_an_identity_adds_is_never_too_small(prefix: str | None) -> None:
    identity = RecordIdentity.of("x", QUEUE, prefix)
    digests = np.zeros(3, np.uint64)
    encoded = encode_records(rows(), identity, 16**10 - 3, digests)
    content = int(rows().content_bytes.sum())
    records = content + 3 * (RECORD_HEAD_BYTES + UNIQUE_KEY_BYTES)
    assert records <= len(encoded) <= records + identity.stamp_bytes


@pytest.mark.parametrize("sys_flag", [ZLIB_FLAGS, LZ4_FLAGS, ZSTD_FLAGS])
def test_every_body_of_a_compressed_batch_is_compressed(sys_flag: int) -> None:
    encoded = encode_records(rows(), RecordIdentity.of("x", QUEUE, None), 0, None, sys_flag)
    bodies = [message.body for message in split_batch(encoded)]
    assert bodies[0] != MESSAGES[0].body
    assert [expand_body(body, sys_flag) for body in bodies] == [m.body for m in MESSAGES]


def test_a_slice_is_encoded_from_where_it_begins() -> None:
    identity = RecordIdentity.of("x", QUEUE, None)
    bodies = [m.body for m in split_batch(encode_records(rows().slice(1, 3), identity, 1, None))]
    assert bodies == [b"", "grün".encode()]
