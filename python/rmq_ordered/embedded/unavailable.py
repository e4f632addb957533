"""The one error that is raised before there is a broker to speak of."""

from __future__ import annotations

from rmq_ordered.errors import EmbeddedBrokerError


class EmbeddedBrokerUnavailable(EmbeddedBrokerError):
    """Something the broker needs is missing here; it was not even tried to start it."""

    def __init__(self, what: str) -> None:
        super().__init__(what, None, ())

    def __str__(self) -> str:
        return self.what
