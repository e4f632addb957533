"""The client itself: connections, routes and broker operations of one RocketMQ cluster."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rmq_ordered.client.broker import BrokerOperations
from rmq_ordered.client.kv import KeyValues
from rmq_ordered.client.routes import RouteTable
from rmq_ordered.client.serving import ServerRequests
from rmq_ordered.clock import Clock
from rmq_ordered.errors import OptionError
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.net.signing import signing
from rmq_ordered.net.system import SystemClock
from rmq_ordered.net.tls import TlsSettings, tls_connector
from rmq_ordered.net.transport import Connect, connect_tcp
from rmq_ordered.options import parse_name_servers
from rmq_ordered.protocol.acl import Credentials

_DEFAULT_TIMEOUT_MS = 3_000


class Client:
    """A connection to a cluster, opened when first used. Thread-safe; cannot be pickled.

    >>> with Client("127.0.0.1:9876", request_timeout_ms=10_000) as client:
    ...     client.broker.create_topic("refunds", 2)
    ...     [str(queue) for queue in client.routes.readable("refunds")]
    ['refunds@broker-a#0', 'refunds@broker-a#1']

    Attributes:
        routes: where topics and their queues live.
        broker: single questions to brokers: offsets, groups, locks, topics.

    Args:
        name_server: ``host:port``, several separated by ``;``.
        request_timeout_ms: how long one request may take.
        credentials: who asks, where access control is on; every request is signed.
        tls: encrypts every connection.
        clock: time; tests pass their own.
        connect: how connections are made; tests pass their own.

    Raises:
        OptionError: the address cannot be read.
        ConnectFailed: a certificate or key file cannot be used.
    """

    def __init__(
        self,
        name_server: str | tuple[str, ...],
        *,
        request_timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        credentials: Credentials | None = None,
        tls: TlsSettings | None = None,
        clock: Clock | None = None,
        connect: Connect = connect_tcp,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.request_timeout_ms = request_timeout_ms
        connector = connect if tls is None else tls_connector(tls)
        self.requests = ServerRequests()
        self.remoting = Remoting(
            self.clock,
            connector,
            on_request=self.requests,
            prepare=signing(credentials, self.clock),
        )
        addresses = _addresses(name_server)
        self.routes = RouteTable(self.remoting, addresses, self.clock, request_timeout_ms)
        self.kv = KeyValues(self.remoting, addresses, request_timeout_ms)
        self.broker = BrokerOperations(self.remoting, self.routes, self.clock, request_timeout_ms)

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.remoting.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _addresses(name_server: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(name_server, tuple):
        return name_server
    try:
        return parse_name_servers(name_server)
    except ValueError:
        raise OptionError(
            "nameServer", name_server, "host:port, several separated by ';'"
        ) from None
