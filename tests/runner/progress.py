"""How far a run is: counted here, shown by `Screen`."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

EVERY_S = 20.0
# Seconds a test takes where no earlier run has told: by the folder, the longest first.
USUAL_S = (
    ("tests/spark/", 5.0), ("tests/clients/", 5.0), ("tests/examples/", 10.0),
    ("tests/faults/", 2.0), ("tests/embedded/", 2.0), ("tests/contract/", 0.4),
    ("tests/cli/", 0.5),
    ("tests/property/", 0.4), ("src/test/", 0.15), ("", 0.03),
)  # fmt: skip


def usual_seconds(test: str) -> float:
    """A guess for a test that was never timed here."""
    return next(seconds for prefix, seconds in USUAL_S if test.startswith(prefix))


@dataclass
class Lane:
    """One of the programs that run side by side: what it has to do and what it has done."""

    name: str
    expected: dict[str, float] = field(default_factory=dict)
    done: int = 0
    failed: int = 0
    skipped: int = 0
    running: str = "starting"
    ended: bool = False

    def expect(self, tests: Iterable[str], known: dict[str, float]) -> None:
        """Says what there is to do; `known` are the times of an earlier run."""
        for test in tests:
            self.expected.setdefault(test, known.get(test, usual_seconds(test)))

    def finish(self, test: str, ended: str) -> None:
        """Counts a test that has ended."""
        self.done += 1
        self.failed += ended == "failed"
        self.skipped += ended == "skipped"
        self._left.discard(test)

    @property
    def total(self) -> int:
        """How many tests there are; sentences with values in them are known by their end only."""
        return max(len(self.expected), self.done)

    def __post_init__(self) -> None:
        self._left: set[str] = set()

    def start(self) -> None:
        """Begins: from here on what was expected and has not ended is left."""
        self._left = set(self.expected)

    @property
    def left_s(self) -> float:
        """The time of what has not ended, as expected; nothing once the lane has ended."""
        return 0.0 if self.ended else sum(self.expected[test] for test in self._left)


class Clock:
    """Time left, by how fast what is done went compared with what was expected of it."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start

    def left_s(self, lanes: Iterable[Lane], workers: dict[str, int]) -> float:
        """The longest lane's rest."""
        rests = []
        for lane in lanes:
            whole = sum(lane.expected.values()) / workers[lane.name]
            rest = lane.left_s / workers[lane.name]
            done = whole - rest
            pace = self.elapsed_s / done if done > 0.05 * whole else 1.0
            rests.append(rest * max(pace, 0.2))
        return max(rests, default=0.0)


class Screen:
    """Shows the lanes: a table that changes on a terminal, elsewhere a line now and then."""

    def __init__(self, lanes: list[Lane], workers: dict[str, int], console: Console) -> None:
        self._lanes = lanes
        self._workers = workers
        self._console = console
        self._clock = Clock()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next_line_s = EVERY_S

    def __enter__(self) -> "Screen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Shows what has changed."""
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif self._clock.elapsed_s >= self._next_line_s:
            self._next_line_s = self._clock.elapsed_s + EVERY_S
            parts = [f"{lane.name} {_counts(lane)}" for lane in self._lanes]
            running = next((lane.running for lane in self._lanes if not lane.ended), "")
            left = self._left()
            self._console.out(
                f"{clock(self._clock.elapsed_s)}  {', '.join(parts)}{left}  {running}"
            )

    def _left(self) -> str:
        left = self._clock.left_s(self._lanes, self._workers)
        return f", about {clock(left)} left"

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.title = f"{clock(self._clock.elapsed_s)}{self._left()}"
        table.title_justify = "left"
        for lane in self._lanes:
            colour = "red" if lane.failed else "green" if lane.ended else ""
            table.add_row(lane.name, f"[{colour}]{_counts(lane)}[/]" if colour else _counts(lane),
                          "" if lane.ended else lane.running)  # fmt: skip
        return table


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def short(test: str) -> str:
    """A test's name without the folders of its file."""
    file, _, name = test.partition("::")
    return f"{Path(file).name}::{name}"


def _counts(lane: Lane) -> str:
    text = f"{lane.done}/{lane.total}"
    return f"{text} ({lane.failed} failed)" if lane.failed else text
