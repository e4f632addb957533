"""Records of another queue than was asked for."""

import pytest
from tests.unit.columnar.samples import QUEUE, message, records

from rmq_ordered.columnar import DecodeOptions, decode_pull_body
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue


@pytest.mark.parametrize(
    "other",
    [
        MessageQueue(QUEUE.topic, "broker-a", 4),
        MessageQueue("orderz", "broker-a", 3),
        MessageQueue("order", "broker-a", 3),
        MessageQueue("", "broker-a", 3),
    ],
    ids=["queue", "topic", "shorter topic", "no topic"],
)
@pytest.mark.parametrize("collect_errors", [False, True])
def test_one_record_of_another_queue_spoils_the_answer(
    other: MessageQueue, collect_errors: bool
) -> None:
    body = records(
        message(queue_offset=5), message(queue_offset=6, queue=other), message(queue_offset=7)
    )
    with pytest.raises(RemoteProtocolError) as refused:
        decode_pull_body(body, QUEUE, DecodeOptions(collect_errors=collect_errors))
    assert f"{QUEUE}: the message at queue offset 6 " in str(refused.value)
    assert f"found topic {other.topic!r}, queue {other.queue_id}" in str(refused.value)


def test_a_topic_outside_ascii_is_compared_by_its_bytes() -> None:
    queue = MessageQueue("%RETRY%标", "broker-a", 0)
    assert decode_pull_body(records(message(queue=queue)), queue).num_rows == 1
    with pytest.raises(RemoteProtocolError, match="%RETRY%栏"):
        decode_pull_body(records(message(queue=MessageQueue("%RETRY%栏", "broker-a", 0))), queue)


def test_a_light_queue_gives_records_of_the_topic_behind_it() -> None:
    light = MessageQueue("%LMQ%orders", "broker-a", 0)
    assert decode_pull_body(records(message()), light).num_rows == 1
