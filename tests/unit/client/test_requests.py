"""Which form of request tells a broker, or whoever reads the queue back, what its rows are."""

import re
import struct

import numpy as np
import pytest

from rmq_ordered.client.pieces import Piece
from rmq_ordered.client.requests import StreamRequests
from rmq_ordered.columnar.outgoing import rows_from_messages
from rmq_ordered.model import MessageQueue, OutgoingMessage, SendStream
from rmq_ordered.ordering.stream import Recovery
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.compression import ZLIB_FLAGS
from rmq_ordered.testing.storage import split_batch

QUEUE = MessageQueue("orders", "broker-a", 1)
STREAM = SendStream("sink", 4, 2)
TWO = [OutgoingMessage(b"a" * 500, {}), OutgoingMessage(b"b", {})]


def piece(messages: list[OutgoingMessage], *, sys_flag: int = 0) -> Piece:
    digests = np.arange(7, 7 + len(messages), dtype=np.uint64)
    return Piece(rows_from_messages(messages), 9, digests, sys_flag)


def requests(recovery: Recovery, *, is_stamped: bool = True) -> StreamRequests:
    return StreamRequests.of(QUEUE, STREAM, recovery, is_stamped=is_stamped)


@pytest.mark.parametrize("count", [1, 2])
def test_a_broker_that_recognises_repeats_gets_one_stamp_with_a_batch(count: int) -> None:
    request = requests(Recovery.BROKER).request(piece(TWO[:count]), 1)
    assert request.code == RequestCode.SEND_BATCH_MESSAGE
    assert (request.ext("stamp"), request.ext_int("digests")) == ("sink/4/2/9", count)
    assert struct.unpack(f">{count}Q", request.body[-8 * count :]) == (7, 8)[:count]
    messages = split_batch(request.body[: -8 * count])
    assert [list(message.properties) for message in messages] == [["UNIQ_KEY"]] * count


def test_otherwise_the_records_tell_what_they_are_and_the_first_one_whose() -> None:
    made = requests(Recovery.READ_BACK)
    messages = split_batch(made.request(piece(TWO), 1).body)
    assert messages[0].properties["RMQO_STAMP"] == "sink/4/2/9/0000000000000007"
    assert "RMQO_STAMP" not in messages[1].properties
    for number, message in enumerate(messages):
        match = re.match(made.trace.unique_keys, message.properties["UNIQ_KEY"])
        assert match is not None
        assert (int(match["sequence"], 16), int(match["digest"], 16)) == (9 + number, 7 + number)


def test_a_single_message_goes_alone_unless_it_is_empty() -> None:
    made = requests(Recovery.READ_BACK)
    assert made.request(piece(TWO[:1]), 1).code == RequestCode.SEND_MESSAGE_V2
    empty = made.request(piece([OutgoingMessage(b"", {})]), 1)
    assert empty.code == RequestCode.SEND_BATCH_MESSAGE


def test_without_a_stamp_rows_are_known_by_their_unique_keys_alone() -> None:
    made = requests(Recovery.READ_BACK, is_stamped=False)
    (message, _) = split_batch(made.request(piece(TWO), 1).body)
    assert list(message.properties) == ["UNIQ_KEY"]
    assert re.match(made.trace.unique_keys, message.properties["UNIQ_KEY"])
    assert made.trace.stamps is None


@pytest.mark.parametrize(
    ("body", "is_smaller"), [(b"a" * 900, True), (bytes(range(256)), False)], ids=["text", "noise"]
)
def test_only_what_becomes_smaller_is_compressed(body: bytes, is_smaller: bool) -> None:
    made = requests(Recovery.BROKER)
    request = made.request(piece([OutgoingMessage(body, {})], sys_flag=ZLIB_FLAGS), 1)
    assert request.ext_int("f") == (ZLIB_FLAGS if is_smaller else 0)
    assert (body in request.body) is not is_smaller
