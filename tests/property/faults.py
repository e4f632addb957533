"""What may happen to the requests of a client, by name, so that examples can be read."""

from collections.abc import Sequence

from hypothesis import strategies as st

from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.testing import ClusterDouble, CutMidFrame, DropReply, Fault, HangUp, Refuse

# None is a request that passes.
FAULTS = st.sampled_from(
    ["busy", "hang up", "hang up after serving", "cut", "silence", "silence after serving", None]
)
# What a broker says to sends while it cannot store; pulls are not answered so.
SEND_FAULTS = FAULTS | st.just("away")


def arm(cluster: ClusterDouble, names: Sequence[str | None], code: int) -> None:
    """One entry per request of this code: a fault, or None for one that passes."""
    passed = 0
    for name in names:
        if name is None:
            passed += 1
        else:
            cluster.network.arm(_fault(name, cluster), code, after=passed)
            passed = 0


def _fault(name: str, cluster: ClusterDouble) -> Fault:
    named: dict[str, Fault] = {
        "busy": Refuse(ResponseCode.SYSTEM_BUSY),
        "away": Refuse(ResponseCode.SERVICE_NOT_AVAILABLE),
        "hang up": HangUp(),
        "hang up after serving": HangUp(is_served=True),
        "cut": CutMidFrame(),
        "silence": DropReply(cluster.clock, 3_000, is_served=False),
        "silence after serving": DropReply(cluster.clock, 3_000),
    }
    return named[name]
