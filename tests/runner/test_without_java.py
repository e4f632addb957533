"""What needs no server runs on a machine that has no Java."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

UNIT_TEST = "tests/unit/test_model.py"
# The classes of a broker may have been prepared already, and then no Java is looked for.
RUN = f"""
import sys, pytest
from tests.support import embedded_start
embedded_start.quick_brokers = lambda: sys.exit("a broker was prepared")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "{UNIT_TEST}"]))
"""


def test_unit_tests_run_without_java_and_prepare_no_broker(tmp_path: Path) -> None:
    without = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    finished = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env={**without, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert " passed" in finished.stdout
