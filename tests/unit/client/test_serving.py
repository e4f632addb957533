"""What brokers ask of a client: told to the right member, answered with a sentence."""

import pytest

from rmq_ordered.client.serving import ServerRequests
from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand

QUEUE = MessageQueue("orders", "broker-a", 3)
RESET_BODY = b'{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"orders"}:42}}'


class Member:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def members_changed(self) -> None:
        self.heard.append("changed")

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        self.heard.append(offsets)

    def describe(self) -> bytes:
        return b"{}"


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def requests(member: Member) -> ServerRequests:
    requests = ServerRequests()
    requests.join("billing", member)
    return requests


def ask(requests: ServerRequests, code: int, body: bytes = b"", **fields: str) -> object:
    return requests("broker:1", RemotingCommand(code, ext_fields=fields, body=body))


def test_a_change_and_a_reset_reach_the_member_of_their_group(
    requests: ServerRequests, member: Member
) -> None:
    changed, reset = (
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    )
    assert ask(requests, changed, consumerGroup="billing") is None
    assert ask(requests, changed, consumerGroup="other") is None
    assert ask(requests, reset, RESET_BODY, group="billing") is None
    assert ask(requests, reset, RESET_BODY, group="other") is None
    assert member.heard == ["changed", {QUEUE: 42}]


def test_running_info_comes_from_the_member(requests: ServerRequests) -> None:
    info = RequestCode.GET_CONSUMER_RUNNING_INFO
    answer = ask(requests, info, consumerGroup="billing")
    assert answer == RemotingCommand(ResponseCode.SUCCESS, body=b"{}")
    requests.leave("billing")
    answer = ask(requests, info, consumerGroup="billing")
    assert isinstance(answer, RemotingCommand)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "group billing has no consumer" in (answer.remark or "")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (RequestCode.CHECK_TRANSACTION_STATE, "no transactional messages"),
        (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, "running info instead"),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, "in order only"),
        (RequestCode.PULL_MESSAGE, "request 11 is not served"),
        (4711, "request 4711 is not served"),
    ],
)
def test_what_is_not_served_is_refused_with_a_sentence(
    requests: ServerRequests, code: int, words: str
) -> None:
    answer = ask(requests, code)
    assert isinstance(answer, RemotingCommand)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert words in (answer.remark or "")


def test_a_request_that_makes_no_sense_is_answered_as_an_error(requests: ServerRequests) -> None:
    answer = ask(requests, RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert isinstance(answer, RemotingCommand)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "consumerGroup" in (answer.remark or "")


def test_a_group_has_one_member_per_client(requests: ServerRequests, member: Member) -> None:
    with pytest.raises(OptionError, match="billing"):
        requests.join("billing", member)
    requests.join("other", member)
