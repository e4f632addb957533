"""The numbers that requests go by."""

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.inflight import MAX_OPAQUE, InFlight


def test_a_request_is_in_flight_from_when_it_goes_out_until_it_is_answered() -> None:
    table = InFlight()
    opaque = table.take()
    assert len(table) == 0
    table.add(opaque)
    assert len(table) == 1
    assert table.settle(opaque)
    assert len(table) == 0
    assert not table.settle(opaque), "answered twice is too late"


def test_an_answer_to_a_forgotten_request_is_late_and_to_none_an_error() -> None:
    table = InFlight()
    opaque = table.take()
    table.add(opaque)
    table.forget(opaque)
    assert not table.settle(opaque)
    for never in (opaque + 1, 0, -1):
        with pytest.raises(RemoteProtocolError, match=f"request {never}, which was never sent"):
            table.settle(never)


def test_numbers_wrap_before_the_sign_bit_and_skip_those_in_flight() -> None:
    table = InFlight()
    first = table.take()
    table.add(first)
    table._next = MAX_OPAQUE
    assert [table.take(), table.take()] == [MAX_OPAQUE, first + 1]
    assert not table.settle(MAX_OPAQUE - 1), "after a wrap any number may have been given"
