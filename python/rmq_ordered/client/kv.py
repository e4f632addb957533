"""Small texts kept by name servers, which do not tell each other: written to all, read from all.

There is no compare-and-set. Whoever shares a namespace gives each writer a key of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from rmq_ordered.errors import RmqOrderedError, TransportError
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.protocol import kv
from rmq_ordered.protocol.answers import accepted, ensure_success
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand

_LOG: Final = logging.getLogger("rmq_ordered.client")


class KeyValues:
    """Thread-safe. A call succeeds when one name server answered; the others are tried too."""

    def __init__(self, remoting: Remoting, name_servers: tuple[str, ...], timeout_ms: int) -> None:
        self._remoting = remoting
        self._name_servers = name_servers
        self._timeout_ms = timeout_ms

    def put(self, namespace: str, key: str, value: str) -> None:
        """Store a text."""
        self._change(kv.put_request(namespace, key, value), f"storing {namespace}/{key}")

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key, whether or not it is there."""
        self._change(kv.delete_request(namespace, key), f"removing {namespace}/{key}")

    def list(self, namespace: str) -> dict[str, str]:
        """Everything that any name server has in the namespace."""
        what = f"listing {namespace}"
        found: dict[str, str] = {}

        def ask(address: str) -> None:
            response = self._call(address, kv.list_request(namespace), what)
            if response.code != ResponseCode.QUERY_NOT_FOUND:
                found.update(accepted(kv.parse_list, response, address, what))

        self._at_all(ask)
        return found

    def _change(self, request: RemotingCommand, what: str) -> None:
        def ask(address: str) -> None:
            ensure_success(self._call(address, request, what), address, what)

        self._at_all(ask)

    def _at_all(self, ask: Callable[[str], None]) -> None:
        failures: list[RmqOrderedError] = []
        for address in self._name_servers:
            try:
                ask(address)
            except TransportError as error:
                _LOG.debug("= name server %s failed: %s", address, error)
                failures.append(error)
        if len(failures) == len(self._name_servers):
            raise failures[-1]

    def _call(self, address: str, request: RemotingCommand, what: str) -> RemotingCommand:
        return self._remoting.call(address, request, what, self._timeout_ms)
