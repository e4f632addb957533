"""From response codes to errors."""

import pytest

from rmq_ordered.errors import AccessDenied, BrokerBusy, BrokerError, RemoteProtocolError
from rmq_ordered.protocol.answers import ensure_success, refusal, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand


def test_success_is_given_back() -> None:
    response = RemotingCommand(ResponseCode.SUCCESS)
    assert ensure_success(response, "b:1", "a pull") is response


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL])
def test_flow_control_is_an_error_that_may_be_tried_again(code: int) -> None:
    error = refusal(RemotingCommand(code, remark="slow down"), "b:1", "a send")
    assert isinstance(error, BrokerBusy)
    assert (error.address, error.what, error.code, error.remark) == (
        "b:1",
        "a send",
        code,
        "slow down",
    )


def test_a_missing_permission_tells_what_to_check() -> None:
    error = refusal(RemotingCommand(ResponseCode.NO_PERMISSION, remark="no"), "b:1", "a send")
    assert isinstance(error, AccessDenied)
    assert not error.retryable


def test_an_answer_that_cannot_be_read_names_who_gave_it() -> None:
    def parse(response: RemotingCommand, address: str) -> int:
        return response.ext_int("offset")

    answer = RemotingCommand(0, ext_fields={"offset": "7"})
    assert understood(parse, answer, "b:1", "the end") == 7
    with pytest.raises(RemoteProtocolError, match=r"b:1 answered the end.*offset"):
        understood(parse, RemotingCommand(0, ext_fields={"offset": "x"}), "b:1", "the end")


def test_any_other_code_is_final() -> None:
    with pytest.raises(BrokerError, match="refused a pull with code 26: no such group") as caught:
        ensure_success(RemotingCommand(26, remark="no such group"), "b:1", "a pull")
    assert type(caught.value) is BrokerError
    assert not caught.value.retryable
