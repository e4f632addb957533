"""A program that the runner starts, and all that it starts in turn."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.paths import ROOT

GRACE_S = 30.0


class Program:
    """A program in a process group of its own, so that ending it ends what it started."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], **streams: int
    ) -> None:
        with log.open("wb") as output:
            target = streams.get("stdout", output.fileno())
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> None:
        """Asks it to stop as Ctrl-C would, and kills what is left of its group after a while."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_S)
        with suppress(ProcessLookupError):  # if nothing is left of it
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
