"""Two ways to do the same work, in turns: what does one cost more than the other?

A machine that is shared, and brokers that get older, drift more than the difference is large. So
both ways are measured right after each other, which one first changes from pair to pair, and what
counts is the middle one of the pairs' ratios. The best time of one beside the best of the other,
and processor time of everybody who takes part, tell the same with less of whatever else the machine
did meanwhile.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import family

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Spent:
    """How long something took, and how much processor time of how many processes."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


Work = Callable[[], Spent]


@dataclass(frozen=True, slots=True)
class Pairs:
    """What pairs of the plain way and the dearer one have shown."""

    plain: tuple[Spent, ...]
    dearer: tuple[Spent, ...]

    @property
    def plain_s(self) -> float:
        """The plain way's time in the middle."""
        return statistics.median(spent.wall_s for spent in self.plain)

    @property
    def dearer_s(self) -> float:
        """The dearer way's time in the middle."""
        return statistics.median(spent.wall_s for spent in self.dearer)

    @property
    def cost(self) -> float:
        """How much more time the dearer way takes, as a part of the plain way's."""
        return statistics.median(
            dearer.wall_s / plain.wall_s - 1
            for plain, dearer in zip(self.plain, self.dearer, strict=True)
        )

    @property
    def best_cost(self) -> float:
        """The same of the best times: what disturbs only ever adds."""
        best = min(spent.wall_s for spent in self.dearer)
        return best / min(spent.wall_s for spent in self.plain) - 1

    @property
    def cpu_cost(self) -> float:
        """The same of processor time."""
        return statistics.median(
            dearer.cpu_s / plain.cpu_s - 1
            for plain, dearer in zip(self.plain, self.dearer, strict=True)
        )


def in_turns(plain: Work, dearer: Work, pairs: int) -> Pairs:
    """Measure so many pairs, after one of each that does not count."""
    plain(), dearer()
    cheap: list[Spent] = []
    dear: list[Spent] = []
    for number in range(pairs):
        if number % 2:
            dear.append(dearer())
            cheap.append(plain())
        else:
            cheap.append(plain())
            dear.append(dearer())
    return Pairs(tuple(cheap), tuple(dear))


@contextmanager
def spending(pids: Sequence[int]) -> Iterator[Spent]:
    """What these processes and their children spend inside the block; filled in at its end."""
    spent = Spent()
    cpu_s, begin = _cpu_s(pids), time.perf_counter()
    yield spent
    spent.wall_s = time.perf_counter() - begin
    spent.cpu_s = _cpu_s(pids) - cpu_s


def _cpu_s(pids: Sequence[int]) -> float:
    """Processor time so far, also of children that have ended."""
    everybody = {one for pid in pids for one in family(pid)}
    ticks = 0
    for pid in everybody:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # its parent has taken over what it spent
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S
