"""The examples are what users copy, so they are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.spark_home import spark_environment

pytestmark = pytest.mark.proof

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(620)
def test_the_demo_survives_kill_9_and_its_audit_holds() -> None:
    finished = subprocess.run(
        [
            sys.executable,
            str(EXAMPLES / "ordered_pipeline_demo.py"),
            "--keys",
            "300",
            "--events",
            "20",
        ],
        env={**os.environ, **spark_environment()},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "per key strictly rising" in finished.stdout
    assert "0 breaks" in finished.stdout
    assert re.search(r"written twice by the replay\W+0\W+holds", finished.stdout)
    assert "killed with -9" in finished.stdout or "done" in finished.stdout
