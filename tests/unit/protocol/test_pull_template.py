"""Pulls from a template; ``tests/property/test_pull_template.py`` holds it to the codec."""

from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.command import decode_command
from rmq_ordered.protocol.frame import FrameDecoder
from rmq_ordered.protocol.pull_template import PullTemplate
from rmq_ordered.protocol.pulls import PullLimits, pull_request

QUEUE = MessageQueue('100% "orders"', "broker-a", 3)


def test_pulls_differ_in_id_offset_and_count_and_in_nothing_else() -> None:
    limits = PullLimits(0, 1_000)
    template = PullTemplate(pull_request(QUEUE, 0, group="billing", limits=limits, lease_epoch=7))
    data = template.encode(1, 20, 32) + template.encode(2**31 - 1, 2**63 - 1, 8)
    first, second = (decode_command(frame) for frame in FrameDecoder().receive_data(data))
    assert (first.opaque, second.opaque) == (1, 2**31 - 1)
    assert [one.ext("queueOffset") for one in (first, second)] == ["20", str(2**63 - 1)]
    assert [one.ext("maxMsgNums") for one in (first, second)] == ["32", "8"]
    assert {one.ext("topic") for one in (first, second)} == {QUEUE.topic}
    assert {one.ext("leaseEpoch") for one in (first, second)} == {"7"}
