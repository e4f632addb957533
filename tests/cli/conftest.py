"""The command line against the session's embedded broker: in this process, or as a real one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import end
from typer.testing import CliRunner

from rmq_ordered import EmbeddedBroker
from rmq_ordered.cli.main import app

COMMAND = (sys.executable, "-m", "rmq_ordered.cli.main")


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines; any other line is an error."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def cells(self) -> list[list[str]]:
        """Standard output as words, line by line, without rules and empty lines."""
        lines = (line.replace("─", " ").split() for line in self.stdout.splitlines())
        return [words for words in lines if words]


Cli = Callable[..., Outcome]
Spawn = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def cli(embedded_broker: EmbeddedBroker) -> Cli:
    """Runs a command in this process; must succeed unless told otherwise."""
    runner = CliRunner(env={"NAMESRV_ADDR": embedded_broker.name_server})

    def run(*arguments: str, stdin: bytes = b"", exit_code: int = 0) -> Outcome:
        result = runner.invoke(app, list(arguments), input=stdin, catch_exceptions=False)
        assert result.exit_code == exit_code, result.stderr
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Starts a command as a process, standard error to a file; kills it at the test's end."""
    processes: list[subprocess.Popen[bytes]] = []
    # A shell that runs the suite in the background ignores SIGINT, and children inherit that.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(*arguments: str, name_server: str = "") -> "subprocess.Popen[bytes]":
        with (tmp_path / "stderr").open("wb") as errors:
            process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "NAMESRV_ADDR": name_server},
            )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            end(process)
    signal.signal(signal.SIGINT, inherited)
