"""What a progress event of Spark's says of sources of this package; others are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.listener import QueryProgressEvent

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import SourceOffset, batch_ranges, decode_offset, encode_offset
from rmq_ordered.ordering.popped import PoppedOffset, decode_popped, is_popped
from rmq_ordered.ordering.report import SourceReport, decode_report

# Spark tells no start for the first batch of a query.
_NOWHERE: Final = encode_offset(SourceOffset({}))


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """A source and its last batch; ``index`` is its place among the sources of the query."""

    index: int
    start: SourceOffset
    end: SourceOffset
    report: SourceReport

    @property
    def ranges(self) -> dict[MessageQueue, tuple[int, int]]:
        """What the batch has read."""
        return batch_ranges(self.start, self.end)


def our_sources(event: QueryProgressEvent) -> Iterator[SourceProgress]:
    """The sources that read queues from where they stand."""
    for index, source in enumerate(event.progress.sources):
        end, latest = _loaded(source.endOffset), _loaded(source.latestOffset)
        if not _is_offset(end):
            continue
        try:
            stands = decode_offset(end)
            start = _loaded(source.startOffset)
            began = decode_offset(start if _is_offset(start) else _NOWHERE)
            is_told = _is_offset(latest)
            report = decode_report(latest) if is_told else SourceReport(stands.positions)
        except OptionError:
            continue
        yield SourceProgress(index, began, stands, report)


def popped_ends(event: QueryProgressEvent) -> Iterator[PoppedOffset]:
    """The ends of the batches that were popped."""
    for source in event.progress.sources:
        end = _loaded(source.endOffset)
        if not isinstance(end, dict) or not is_popped(end):
            continue
        try:
            popped = decode_popped(end)
        except (ValueError, OptionError):
            continue
        yield popped


def _is_offset(loaded: Any) -> bool:
    return isinstance(loaded, dict) and {"topics", "version"} <= loaded.keys()


def _loaded(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None
