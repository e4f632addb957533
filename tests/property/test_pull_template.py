"""Pulls written from a template are the pulls that the codec would write."""

from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.command import RemotingCommand, encode_command
from rmq_ordered.protocol.pull_template import PullTemplate
from rmq_ordered.protocol.pulls import PullLimits, pull_request

# Also what looks like the fields that are filled in, and what bytes and texts escape.
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(['"maxMsgNums":"0"', '\\"queueOffset":"0"', '"opaque":0,', "%d", "%%", "\\"]),
)
NUMBERS = st.integers(0, 2**63 - 1)


@given(
    names=st.tuples(NAMES, NAMES, NAMES, NAMES),
    opaque=st.integers(1, 2**31 - 1),
    offset=NUMBERS,
    count=st.integers(0, 2**31 - 1),
    epoch=st.none() | NUMBERS,
)
def test_a_template_gives_the_codec_s_bytes(
    names: tuple[str, str, str, str], opaque: int, offset: int, count: int, epoch: int | None
) -> None:
    topic, broker, group, expression = names

    def request(offset: int, count: int) -> RemotingCommand:
        return pull_request(
            MessageQueue(topic, broker, 0),
            offset,
            group=group,
            limits=PullLimits(count, 0),
            expression=expression,
            lease_epoch=epoch,
        )

    template = PullTemplate(request(0, 0))
    expected = encode_command(request(offset, count), opaque)
    assert template.encode(opaque, offset, count) == expected
