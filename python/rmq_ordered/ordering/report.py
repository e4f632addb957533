"""What a running source tells of itself with its progress: where its queues end, and its leases.

    {"group":"billing","leases":{topic:{broker:{queue:epoch}}},"owner":"...","topics":{...},
     "version":1}

An offset (``offsets``) with who reads it. It is in no checkpoint: whoever listens to a query learns
from it under which leases the batch was planned. ``epoch`` is null where a broker has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.ordering.offsets import (
    Positions,
    SourceOffset,
    by_topic,
    decode_offset,
    encode_offset,
    queue_values,
)


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A look at the queues that a source reads; without a group it owns none of them."""

    ends: Positions
    group: str | None = None
    owner: str = ""
    epochs: Mapping[MessageQueue, int | None] = field(default_factory=dict)

    @property
    def leases(self) -> dict[MessageQueue, QueueLease]:
        """What the source held when it planned its batch."""
        if self.group is None:
            return {}
        return {
            queue: QueueLease(self.group, queue, self.owner, epoch)
            for queue, epoch in self.epochs.items()
        }


def encode_report(report: SourceReport) -> dict[str, Any]:
    """The report as Spark shows it in the progress."""
    encoded = encode_offset(SourceOffset(report.ends))
    if report.group is None:
        return encoded
    leases = by_topic(report.epochs)
    return {"group": report.group, "leases": leases, "owner": report.owner} | encoded


def decode_report(loaded: Mapping[str, Any]) -> SourceReport:
    """The report out of a progress; raises OptionError if it is none."""
    ends = decode_offset(loaded).positions
    if "group" not in loaded:
        return SourceReport(ends)
    try:
        epochs = dict(queue_values(loaded["leases"]))
        return SourceReport(ends, str(loaded["group"]), str(loaded["owner"]), epochs)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise OptionError("latestOffset", dict(loaded), "a report with leases") from error
