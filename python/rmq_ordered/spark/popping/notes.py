"""Notes in the name servers that a batch is finished, from a listener to the source's own process.

Spark tells a source that a batch is finished only when it plans the next one. A listener hears of
it at once, but in another process than the one that has the handles. The notes are hints: without
them the source acknowledges later.
"""

from __future__ import annotations

from rmq_ordered.client.kv import KeyValues


class FinishedNotes:
    """The notes of one group; each run of a query has a key of its own. Thread-safe."""

    def __init__(self, kv: KeyValues, group: str) -> None:
        self._kv = kv
        self._namespace = f"rmq-ordered-pop@{group}"

    def tell(self, run: str, batch: int) -> None:
        """Say that a batch of a run is finished."""
        self._kv.put(self._namespace, run, str(batch))

    def told(self, run: str) -> int:
        """The last batch of a run that was said to be finished; 0 if none was."""
        text = self._kv.list(self._namespace).get(run, "0")
        return int(text) if text.isdecimal() else 0

    def forget(self, run: str) -> None:
        """The run is over."""
        self._kv.delete(self._namespace, run)
