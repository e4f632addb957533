"""A machine that lacks something is told so in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "prerequisites"


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(path: Path, *what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), *what],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with good versions of everything, and the two tools the script itself needs."""
    for tool in ("sed", "head"):
        (tmp_path / tool).symlink_to(
            Path("/usr/bin") / tool if Path("/usr/bin", tool).exists() else Path("/bin", tool)
        )
    fake(tmp_path, "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    fake(tmp_path, "mvn", "true")
    return tmp_path


def test_nothing_is_said_when_nothing_is_missing(tools: Path) -> None:
    for what in (["python", sys.executable], ["broker"]):
        finished = run(tools, *what)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_python_can_be_set_up_without_java(tools: Path) -> None:
    (tools / "java").unlink()
    assert run(tools, "python", sys.executable).returncode == 0


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda path: (path / "java").unlink(), "Java was not found; install a JDK 17 or newer"),
        (
            lambda path: fake(path, "java", "echo 'openjdk version \"11.0.2\"' >&2"),
            "Java 11 is too old",
        ),
        (lambda path: (path / "mvn").unlink(), "neither sbt nor Maven was found"),
    ],
)
def test_what_is_missing_is_named_in_one_sentence(tools: Path, break_it, sentence: str) -> None:
    break_it(tools)
    finished = run(tools, "broker")
    assert finished.returncode == 1
    assert sentence in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def test_a_missing_or_old_python_is_named(tools: Path) -> None:
    assert "'python-nowhere' was not found" in run(tools, "python", "python-nowhere").stderr
    fake(tools, "python-old", 'case "$1" in -c) exit 1;; *) echo Python 3.9.2;; esac')
    assert "Python 3.9.2 is too old" in run(tools, "python", "python-old").stderr
