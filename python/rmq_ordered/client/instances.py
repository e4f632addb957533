"""Which runs of an instance there are, so that a new run can take over from those before it.

Every run has client ids that nobody else ever uses, and writes each of them, under a key of its
own, into the name servers' key-value configuration before it first locks with it. A new run reads
the others there and knows as whom it may unlock. The record is a hint, never a right: without it a
new run waits until the old lock ends (``decisions/0007-take-over-by-recorded-runs.md``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rmq_ordered.client.kv import KeyValues
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.net.system import is_known_dead, process_identity

_LOG: Final = logging.getLogger("rmq_ordered.client")


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A client id under which an earlier run may hold queues.

    ``is_known_dead`` is True only where it is certain that nobody reads under that id any more.
    """

    client_id: str
    is_known_dead: bool = False


@dataclass(frozen=True, slots=True)
class _Record:
    client_id: str
    number: int
    process: str

    @property
    def rank(self) -> tuple[int, str]:
        return self.number, self.client_id


class InstanceRun:
    """The place of one run among the runs of its instance.

    Runs are numbered one above all they saw, ties broken by client id: of two that start at the
    same moment both agree which is the later one, and only that one takes over.
    """

    def __init__(
        self,
        kv: KeyValues,
        group: str,
        instance_id: str,
        *,
        process: str | None = None,
        is_dead: Callable[[str], bool] = is_known_dead,
    ) -> None:
        self._kv = kv
        # Neither part may hold an '@', so the two cannot run into each other.
        self._namespace = f"rmq-ordered-runs@{group}@{instance_id}"
        self._process = process_identity() if process is None else process
        self._is_dead = is_dead
        self._number: int | None = None
        self._mine: list[str] = []
        self._earlier: tuple[Predecessor, ...] = ()

    def enter(self, client_id: str) -> None:
        """Record a client id of this run, before it is used for the first time.

        A name server that cannot be reached costs the next run its head start, nothing else.
        """
        try:
            if self._number is None:
                known = self._records()
                self._number = 1 + max((record.number for record in known), default=0)
            value = json.dumps({"number": self._number, "process": self._process})
            self._kv.put(self._namespace, client_id, value)
        except RmqOrderedError as error:
            _LOG.warning(
                "this run could not be recorded, the next one will wait client=%s: %s",
                client_id,
                error,
            )
            return
        self._mine.append(client_id)

    def predecessors(self) -> tuple[Predecessor, ...]:
        """The client ids of earlier runs; none if this run is not recorded itself."""
        if self._number is None or not self._mine:
            return ()
        rank = (self._number, self._mine[0])
        try:
            records = self._records()
        except RmqOrderedError as error:
            _LOG.warning("earlier runs cannot be found, a dead one is waited for: %s", error)
            return ()
        self._earlier = tuple(
            Predecessor(record.client_id, self._is_dead(record.process))
            for record in sorted(records, key=lambda record: record.rank)
            if record.rank < rank and record.client_id not in self._mine
        )
        return self._earlier

    def leave(self) -> None:
        """Forget this run: it holds nothing any more."""
        mine, self._mine = self._mine, []
        self._forget(mine)

    def forget_earlier(self) -> None:
        """Remove the records of earlier runs, once everything was taken over from them."""
        earlier, self._earlier = self._earlier, ()
        self._forget([one.client_id for one in earlier])

    def _forget(self, client_ids: Iterable[str]) -> None:
        for client_id in client_ids:
            try:
                self._kv.delete(self._namespace, client_id)
            except RmqOrderedError as error:
                # A record too many makes a later run ask once more than it had to.
                _LOG.debug("= the record of %s stays behind: %s", client_id, error)

    def _records(self) -> list[_Record]:
        return [
            record
            for client_id, value in self._kv.list(self._namespace).items()
            if (record := _record(client_id, value)) is not None
        ]


def _record(client_id: str, value: str) -> _Record | None:
    """What a run wrote; None for what this version cannot read: it is then left alone."""
    try:
        fields = json.loads(value)
        return _Record(client_id, int(fields["number"]), str(fields["process"]))
    except (ValueError, TypeError, KeyError):
        return None
