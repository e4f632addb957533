"""Pull requests and their outcomes."""

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import PullFlag, RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.pulls import (
    PULL_CODES,
    PullLimits,
    PullStatus,
    parse_pull,
    pull_request,
)

QUEUE = MessageQueue("orders", "broker-a", 3)
OFFSETS = {"maxOffset": "30", "minOffset": "10", "nextBeginOffset": "20"}


def test_a_pull_brings_its_subscription_so_that_no_heartbeat_is_needed() -> None:
    request = pull_request(QUEUE, 20, group="billing", limits=PullLimits(8, 1_000))
    assert request.code == RequestCode.PULL_MESSAGE
    assert request.ext("sysFlag") == str(PullFlag.SUBSCRIPTION.value)
    assert request.ext("subscription") == "*"
    assert (request.ext("maxMsgNums"), request.ext("maxMsgBytes")) == ("8", "1000")
    assert (request.ext("queueOffset"), request.ext("queueId")) == ("20", "3")
    assert "leaseEpoch" not in (request.ext_fields or {})


def test_a_pull_says_what_kind_of_expression_it_brings() -> None:
    condition = pull_request(
        QUEUE, 20, group="g", limits=PullLimits(), expression="a = 1", expression_type="SQL92"
    )
    assert (condition.ext("subscription"), condition.ext("expressionType")) == ("a = 1", "SQL92")
    plain = pull_request(QUEUE, 20, group="g", limits=PullLimits())
    assert plain.ext("expressionType") == "TAG"


def test_a_pull_never_commits() -> None:
    request = pull_request(QUEUE, 20, group="billing", limits=PullLimits(), suspend_ms=1_000)
    assert not request.ext_int("sysFlag") & PullFlag.COMMIT_OFFSET


def test_a_pull_that_may_wait_has_the_suspend_bit() -> None:
    request = pull_request(QUEUE, 20, group="billing", limits=PullLimits(), suspend_ms=15_000)
    assert request.ext_int("sysFlag") == PullFlag.SUBSCRIPTION | PullFlag.SUSPEND
    assert request.ext("suspendTimeoutMillis") == "15000"


def test_a_pull_under_a_lease_carries_its_epoch() -> None:
    request = pull_request(QUEUE, 20, group="billing", limits=PullLimits(), lease_epoch=0)
    assert request.ext("leaseEpoch") == "0"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, PullStatus.FOUND),
        (19, PullStatus.NO_NEW_MESSAGE),
        (20, PullStatus.NO_MATCHED_MESSAGE),
        (21, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_every_outcome_has_a_status_and_its_offsets(code: int, status: PullStatus) -> None:
    assert code in PULL_CODES
    result = parse_pull(RemotingCommand(code, ext_fields=OFFSETS, body=b"raw"))
    assert result.status is status
    assert (result.minimum, result.next_offset, result.maximum) == (10, 20, 30)
    assert result.body == b"raw"


@pytest.mark.parametrize("missing", sorted(OFFSETS))
def test_an_outcome_without_an_offset_is_a_remote_protocol_error(missing: str) -> None:
    fields = {name: value for name, value in OFFSETS.items() if name != missing}
    with pytest.raises(RemoteProtocolError, match=f"'{missing}'"):
        parse_pull(RemotingCommand(0, ext_fields=fields))


def test_a_queue_of_a_static_topic_that_has_moved_is_refused() -> None:
    unmoved = parse_pull(RemotingCommand(0, ext_fields=OFFSETS | {"offsetDelta": "0"}))
    assert unmoved == parse_pull(RemotingCommand(0, ext_fields=OFFSETS))
    with pytest.raises(RemoteProtocolError, match="shifted by 40"):
        parse_pull(RemotingCommand(0, ext_fields=OFFSETS | {"offsetDelta": "40"}))
