"""A plugin of pytest that tells the runner what is going on, as lines of JSON in a file."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

EVENTS = "RMQ_ORDERED_TEST_EVENTS"


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that the runner started tells: xdist's workers report to it."""
    if EVENTS in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Teller(Path(os.environ[EVENTS])), "rmq-ordered-events")


class _Teller:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._seconds: dict[str, float] = {}
        self._ended: dict[str, tuple[str, str]] = {}

    def _tell(self, **event: Any) -> None:
        self._file.write(json.dumps(event) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tell(event="collected", tests=[item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        self._tell(event="collected", tests=list(ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tell(event="started", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.when == "call" or report.outcome != "passed":
            self._ended[report.nodeid] = _outcome(report)
        if report.when == "teardown":
            ended, why = self._ended.pop(report.nodeid, ("passed", ""))
            seconds = self._seconds.pop(report.nodeid)
            self._tell(event="ended", test=report.nodeid, ended=ended, why=why, seconds=seconds)


def _outcome(report: pytest.TestReport) -> tuple[str, str]:
    if report.outcome != "skipped":
        return report.outcome, ""
    if hasattr(report, "wasxfail"):
        return "xfailed", str(report.wasxfail)
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return "skipped", str(why)
