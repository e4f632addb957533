"""A run of the tests that is interrupted leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.processes import command_line, end, family
from tests.support.waiting import wait_until

RUN = (sys.executable, "-m", "tests.runner", "test", "tests/embedded/test_embedded_broker.py")
BROKER = "rmqordered.Main"
PATIENCE_S = 120


def test_an_interrupted_run_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        RUN, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        wait_until(lambda: _brokers(run.pid), "the run has started a broker", PATIENCE_S)
        started = family(run.pid)
        run.send_signal(signal.SIGINT)
        assert run.wait(PATIENCE_S) == 130
    finally:
        end(run)
    wait_until(lambda: not any(map(command_line, started)), "all its processes ended", PATIENCE_S)
    assert list(tmp_path.iterdir()) == []


def _brokers(pid: int) -> list[int]:
    return [one for one in family(pid) if BROKER in command_line(one)]
