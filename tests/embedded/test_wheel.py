"""What is shipped: a wheel with both packages, the jar and the marker for type checkers."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from rmq_ordered.version import __version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    answer = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_both_packages_the_jar_and_the_types(wheel: Path) -> None:
    assert wheel.name == f"rmq_ordered-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        jar = archive.getinfo("rmq_ordered/jars/rmq-ordered-broker.jar")
    assert jar.file_size > 0
    assert {
        "pyspark_rmq_ordered/__init__.py",
        "rmq_ordered/__init__.py",
        "rmq_ordered/py.typed",
        "rmq_ordered/cli/main.py",
        "rmq_ordered/embedded/__init__.py",
        f"rmq_ordered-{__version__}.dist-info/entry_points.txt",
    } <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_the_command_of_the_wheel_is_rmq_ordered(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.read(f"rmq_ordered-{__version__}.dist-info/entry_points.txt").decode()
    assert "rmq-ordered = rmq_ordered.cli.main:run" in entries


def test_the_jar_holds_this_projects_classes_only(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        jar = archive.extract("rmq_ordered/jars/rmq-ordered-broker.jar", tmp_path)
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
    assert "rmqordered/Main.class" in names
    assert "rmqordered/log4j2.properties" in names
    foreign = [name for name in names if not name.startswith(("rmqordered/", "META-INF/"))]
    assert foreign == []


def test_an_unpacked_wheel_runs_a_broker(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = """
import rmq_ordered, sys
from pathlib import Path
assert Path(rmq_ordered.__file__).is_relative_to(sys.argv[1]), rmq_ordered.__file__
with rmq_ordered.EmbeddedBroker() as broker:
    print(broker.name_server)
"""
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**_environment(), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("127.0.0.1:")


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)
