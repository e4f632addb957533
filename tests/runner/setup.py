"""What has to be there before a tier begins: the broker's jar, and what the tests share."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from tests.runner.program import Program

TAIL_LINES = 40
_MISSING = re.compile(r"cannot be set up: (.*)")
_UNREACHABLE = re.compile(r"download error|UnknownHostException|Could not (?:resolve|transfer)")


class Setup:
    """Builds and prepares; knows what is lacking on this machine and what is broken in the tree."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder = folder
        self._console = console
        self._program: Program | None = None
        # A tool that the machine does not have: what needs it cannot run.
        self.lacking = ""
        # A mistake in the sources.
        self.broken = ""

    @property
    def why(self) -> str:
        """Why no test that needs a broker can run; empty if they can."""
        return self.lacking or self.broken

    def build(self) -> None:
        """Brings the broker's jar up to date."""
        status, said = self._run(["make", "--no-print-directory", "jar"])
        if status == 0:
            return
        if missing := _MISSING.search(said):
            self.lacking = missing[1]
        elif unreachable := _UNREACHABLE.search(said):
            self.lacking = f"the broker cannot be built, no registry answers ({unreachable[0]})"
        else:
            self.broken = "the broker cannot be built"
            self._console.print(_end_of(said), markup=False)

    def prepare(self) -> None:
        """Makes what many tests share; what cannot be made is said, and by those tests again."""
        self._console.print(
            "setting up: RocketMQ, and the classes that its JVMs and Spark's load ..."
        )
        status, said = self._run([sys.executable, "-m", "tests.support.prepare"])
        if status != 0 or "cannot be had" in said:
            self._console.print(_end_of(said), style="red", markup=False)

    def end(self) -> None:
        """Ends what still runs."""
        if self._program is not None:
            self._program.end()

    def _run(self, command: Sequence[str]) -> tuple[int, str]:
        log = self._folder / "setup.log"
        self._program = Program(command, log, {})
        status = self._program.process.wait()
        self._program = None
        return status, log.read_text(encoding="utf-8", errors="replace")


def _end_of(text: str) -> str:
    return "\n".join(text.splitlines()[-TAIL_LINES:])
