"""Finding TCP ports for servers that cannot be told to pick one themselves."""

import secrets
import socket
from collections.abc import Sequence
from contextlib import ExitStack

# Below Linux's default range for outgoing connections (32768-60999): a port found free here is not
# taken a moment later by somebody's client socket. What remains is another server started in the
# same instant.
FIRST_PORT, LAST_PORT = 12_000, 32_000
ATTEMPTS = 200


def free_base_port(offsets: Sequence[int]) -> int:
    """Returns a port such that it and its neighbours at the offsets are all free at this moment."""
    for _ in range(ATTEMPTS):
        base = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
        if all(_is_free(base + offset) for offset in offsets):
            return base
    message = f"found no free ports at offsets {list(offsets)} in {ATTEMPTS} attempts"
    raise OSError(message)


def _is_free(port: int) -> bool:
    # The wildcard address covers loopback too, and RocketMQ's replication port listens there.
    with ExitStack() as stack:
        probe = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
