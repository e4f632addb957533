"""What may happen to the requests of a client, by name, so that examples can be read."""

from collections.abc import Sequence

from hypothesis import strategies as st

from rmq_ordered.client import SendSettings
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    ClusterDouble,
    CutMidFrame,
    DropReply,
    Fault,
    HangUp,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve

SENDS = (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2)

# None is a request that passes.
FAULTS = st.sampled_from(
    ["busy", "hang up", "hang up after serving", "cut", "silence", "silence after serving", None]
)
# What a broker says to sends while it cannot store; pulls are not answered so. And what it does to
# them when another thread of its pool is faster.
SEND_FAULTS = FAULTS | st.sampled_from(["away", "late"])


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
        "no": Refuse(ResponseCode.NO_PERMISSION),
        "hang up": HangUp(),
        "hang up after serving": HangUp(is_served=True),
        "cut": CutMidFrame(),
        "silence": DropReply(cluster.clock, 3_000, is_served=False),
        "silence after serving": DropReply(cluster.clock, 3_000),
        "late": LateAppend(cluster),
    }
    return named[name]


class LateAppend:
    """A send is stored only after its sender has given it up: a second later.

    Or right behind the next send to its queue, if that one comes earlier: another thread of the
    broker was faster. So who sends without waiting and looking is overtaken.
    """

    def __init__(self, cluster: ClusterDouble) -> None:
        self._clock = cluster.clock
        self._network = cluster.network
        self._broker = cluster.brokers[0]
        self._request: RemotingCommand | None = None

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Keep the request, and let the sender's time run out."""
        self._request, self._serve = request, serve
        self._network.listen(self._broker.address, self._watch)
        self._clock.advance_ms(3_000)
        self._due_ms = self._clock.monotonic_ms() + SendSettings().wait_out_ms

    def _watch(self, request: RemotingCommand) -> RemotingCommand:
        if self._clock.monotonic_ms() >= self._due_ms:
            self._store()
        response = self._serve(request)
        held = self._request
        if held is not None and request.code in SENDS and request.ext("e") == held.ext("e"):
            self._store()
        return response

    def _store(self) -> None:
        held, self._request = self._request, None
        if held is not None:
            self._serve(held)
