import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmq_ordered.cli import broker
from rmq_ordered.cli.main import app
from rmq_ordered.embedded import classpath, launcher


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have replaced this process."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append(command))
    monkeypatch.setattr(launcher, "broker_command", lambda arguments: ["java", *arguments])
    return commands


def test_the_data_folder_of_the_user_is_the_default(
    executed: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert CliRunner().invoke(app, ["broker"]).exit_code == 0
    assert executed == [["java", "--data", str(tmp_path / "rmq-ordered")]]


def test_a_configuration_file_decides_where_no_option_is_given(
    executed: list[list[str]],
) -> None:
    assert CliRunner().invoke(app, ["broker", "--config", "b.conf"]).exit_code == 0
    assert executed == [["java", "--config", "b.conf"]]


def test_options_are_passed_on(executed: list[list[str]], tmp_path: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--data", str(tmp_path), "--config", "b.conf"]
    assert CliRunner().invoke(app, ["broker", *options]).exit_code == 0
    assert executed == [["java", *options]]


@pytest.mark.parametrize("configured", ["", "relative/path"])
def test_without_a_usable_xdg_folder_the_home_folder_is_taken(
    configured: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", configured)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert broker.default_data() == tmp_path / ".local" / "share" / "rmq-ordered"


def test_a_missing_jar_is_one_sentence_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launcher, "find_java", lambda: Path("java"))
    monkeypatch.setattr(classpath, "BROKER_JAR", tmp_path / "none.jar")
    result = CliRunner().invoke(app, ["broker", "--listen", "127.0.0.1:0"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: the broker's jar is missing: expected")
    assert "run `make jar`" in result.stderr
