"""What a client adds to its requests so that a broker knows who asks."""

from __future__ import annotations

import threading
from itertools import count

from rmq_ordered.clock import Clock
from rmq_ordered.net.remoting import Prepare, unchanged
from rmq_ordered.net.system import fresh_session
from rmq_ordered.protocol.acl import Credentials, sign, sign_strictly
from rmq_ordered.protocol.command import RemotingCommand


def signing(credentials: Credentials | None, clock: Clock) -> Prepare:
    """How the requests of a client are prepared: not at all, as RocketMQ signs, or strictly."""
    if credentials is None:
        return unchanged
    if credentials.strict:
        return StrictSigner(credentials, clock)
    return lambda command, address: sign(command, credentials)


class StrictSigner:
    """Signs strictly; the requests to each address are a session of their own. Thread-safe."""

    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        self._credentials = credentials
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[str, count[int]]] = {}

    def __call__(self, command: RemotingCommand, address: str) -> RemotingCommand:
        """The command, signed for one address, now and once."""
        with self._lock:
            session, numbers = self._sessions.setdefault(address, (fresh_session(), count()))
            nonce = f"{session}.{next(numbers)}"
        return sign_strictly(
            command,
            self._credentials,
            address=address,
            time_ms=self._clock.wall_ms(),
            nonce=nonce,
        )
