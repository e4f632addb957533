"""Who of a group consumes which queues: decided by every member for itself, as Java's clients do.

All members must use the same strategy on the same lists, sorted the same way; then their answers
fit together without anybody talking to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmq_ordered.model import MessageQueue

Allocate = Callable[[Sequence[MessageQueue], Sequence[str], str], tuple[MessageQueue, ...]]


def allocate_averagely(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> tuple[MessageQueue, ...]:
    """Neighbouring queues to each member (Java's ``AllocateMessageQueueAveragely``, the default).

    The first ``queues % members`` members have one queue more than the others. Somebody who is not
    a member gets nothing.
    """
    ordered, names = sorted(queues), sorted(members)
    if me not in names:
        return ()
    index = names.index(me)
    share, left = divmod(len(ordered), len(names))
    start = index * share + min(index, left)
    return tuple(ordered[start : start + share + (index < left)])


def allocate_by_circle(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> tuple[MessageQueue, ...]:
    """Queues dealt out one by one (Java's ``AllocateMessageQueueAveragelyByCircle``)."""
    ordered, names = sorted(queues), sorted(members)
    if me not in names:
        return ()
    return tuple(ordered[names.index(me) :: len(names)])
