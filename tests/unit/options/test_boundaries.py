"""Where reads begin and end."""

from rmq_ordered.model import MessageQueue
from rmq_ordered.options import StartPosition
from rmq_ordered.options.boundaries import parse_end, parse_start

QUEUE = MessageQueue("orders", "a", 0)
EARLIEST, LATEST = StartPosition.EARLIEST, StartPosition.LATEST


def test_a_place_is_a_name_or_offsets_of_queues() -> None:
    assert parse_start("earliest") is EARLIEST
    assert parse_start(' {"orders":{"a":{"0":5}}} ') == {QUEUE: 5}
    assert parse_end("latest") is LATEST
    assert parse_end('{"orders":{"a":{"0":-1}}}') == {QUEUE: -1}
