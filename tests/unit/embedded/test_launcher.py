from collections.abc import Callable
from pathlib import Path

import pytest

from rmq_ordered.embedded import launcher
from rmq_ordered.errors import EmbeddedBrokerError


@pytest.mark.parametrize(
    ("text", "feature"),
    [("17.0.15", 17), ("21-ea", 21), ("1.8.0_292", 8), ("25", 25), ("11.0.2+9", 11)],
)
def test_the_feature_release_is_read_from_every_style_of_version(text: str, feature: int) -> None:
    assert launcher._feature(r'^JAVA_VERSION="([^"]+)"', f'A="b"\nJAVA_VERSION="{text}"') == feature


def test_a_text_without_a_version_gives_none() -> None:
    assert launcher._feature(r'version "([^"]+)"', "who knows") is None


def test_the_command_runs_main_with_its_arguments_last(fake_java: Callable[[str], Path]) -> None:
    home = fake_java("")
    command = launcher.broker_command(["--listen", "127.0.0.1:0"])
    assert command[0] == str(home / "bin" / "java")
    assert command[-3:] == ["rmqordered.Main", "--listen", "127.0.0.1:0"]
    assert "-Xmx512m" in command


def test_flags_from_the_environment_come_last_so_that_they_win(
    fake_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java("")
    monkeypatch.setenv(launcher.JAVA_OPTIONS, "-Xmx2g '-Dname=two words'")
    command = launcher.broker_command([])
    assert command.index("-Xmx2g") > command.index("-Xmx512m")
    assert command.index("-Xmx2g") < command.index("-cp")
    assert "-Dname=two words" in command


def test_flags_from_the_environment_that_are_no_words_are_an_error_that_names_the_variable(
    fake_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java("")
    monkeypatch.setenv(launcher.JAVA_OPTIONS, "-Xmx2g 'oops")
    with pytest.raises(EmbeddedBrokerError, match=f"{launcher.JAVA_OPTIONS} is -Xmx2g 'oops"):
        launcher.broker_command([])


def test_java_home_wins_over_the_path(fake_java: Callable[[str], Path]) -> None:
    home = fake_java("")
    assert launcher.find_java() == home / "bin" / "java"


def test_a_java_home_without_java_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EmbeddedBrokerError, match=f"JAVA_HOME is {tmp_path}, but"):
        launcher.find_java()


def test_no_java_at_all_is_an_error_that_says_which_one_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedBrokerError, match=r"no java was found .* needs Java 17 or later"):
        launcher.find_java()


def test_a_java_that_is_too_old_is_refused_before_it_is_started(
    fake_java: Callable[[str], Path],
) -> None:
    home = fake_java("raise SystemExit('started')")
    (home / "release").write_text('JAVA_VERSION="11.0.2"\n')
    with pytest.raises(EmbeddedBrokerError, match="needs Java 17 or later, found Java 11 at"):
        launcher.find_java()


def test_a_java_without_a_release_file_is_asked_itself(fake_java: Callable[[str], Path]) -> None:
    home = fake_java("""
        import sys
        print('java version "1.8.0_292"', file=sys.stderr)
    """)
    (home / "release").unlink()
    with pytest.raises(EmbeddedBrokerError, match="found Java 8"):
        launcher.find_java()


def test_a_java_that_cannot_tell_its_version_gets_its_chance(
    fake_java: Callable[[str], Path],
) -> None:
    home = fake_java("")
    (home / "release").unlink()
    assert launcher.find_java() == home / "bin" / "java"
