"""A java that is none: fast, and as naughty as a test needs it."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rmq_ordered.embedded import classpath, launcher

FakeJava = Callable[[str], Path]


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    """Installs a Python script as JAVA_HOME's java (17), and an empty jar; returns JAVA_HOME."""
    jar = tmp_path / "rmq-ordered-broker.jar"
    jar.touch()
    monkeypatch.setattr(classpath, "BROKER_JAR", jar)
    home = tmp_path / "java-home"

    def install(script: str) -> Path:
        java = home / "bin" / "java"
        java.parent.mkdir(parents=True, exist_ok=True)
        java.write_text(f"#!{sys.executable} -IS\n{textwrap.dedent(script)}")
        java.chmod(0o755)
        (home / "release").write_text('IMPLEMENTOR="Nobody"\nJAVA_VERSION="17.0.1"\n')
        monkeypatch.setenv("JAVA_HOME", str(home))
        launcher._java_version.cache_clear()
        return home

    return install
