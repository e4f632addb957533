"""Where reads begin and end, and which beginnings depend on when they are looked at."""

import pytest

from rmq_ordered.model import MessageQueue
from rmq_ordered.options import Boundary, StartPosition
from rmq_ordered.options.boundaries import parse_end, parse_start

QUEUE = MessageQueue("orders", "a", 0)
EARLIEST, LATEST, GROUP = StartPosition.EARLIEST, StartPosition.LATEST, StartPosition.GROUP


@pytest.mark.parametrize(
    ("boundary", "depends"),
    [
        (Boundary(EARLIEST, EARLIEST), False),
        (Boundary(LATEST, EARLIEST), True),
        (Boundary(GROUP, LATEST), True),
        (Boundary(None, EARLIEST, {QUEUE: 5}), False),
        (Boundary(None, EARLIEST, {QUEUE: -1}), True),
        (Boundary(None, EARLIEST, {}, 1_000), False),
    ],
)
def test_only_what_means_now_depends_on_now(boundary: Boundary, depends: bool) -> None:
    assert boundary.depends_on_now is depends


def test_a_place_is_a_name_or_offsets_of_queues() -> None:
    assert parse_start("earliest") is EARLIEST
    assert parse_start(' {"orders":{"a":{"0":5}}} ') == {QUEUE: 5}
    assert parse_end("latest") is LATEST
    assert parse_end('{"orders":{"a":{"0":-1}}}') == {QUEUE: -1}
