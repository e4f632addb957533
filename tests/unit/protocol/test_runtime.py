"""What brokers say of their logs."""

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.runtime import LogProgress, parse_log_progress, runtime_request


def test_the_request_has_no_fields() -> None:
    request = runtime_request()
    assert (request.code, request.ext_fields) == (RequestCode.GET_BROKER_RUNTIME_INFO, None)


def test_what_is_dispatched_is_told_by_what_is_not() -> None:
    body = b'{"table":{"commitLogMaxOffset":"4096","dispatchBehindBytes":"96","other":"x"}}'
    assert parse_log_progress(RemotingCommand(0, body=body)) == LogProgress(4096, 4000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"table":7}',
        b'{"table":{"commitLogMaxOffset":"1"}}',
        b'{"table":{"commitLogMaxOffset":"1","dispatchBehindBytes":"many"}}',
    ],
)
def test_an_answer_without_these_numbers_is_an_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"runtime information|JSON body"):
        parse_log_progress(RemotingCommand(0, body=body))
