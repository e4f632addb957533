import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.embedded import EmbeddedBroker, process
from rmq_ordered.errors import EmbeddedBrokerError

# Ends with exit code 0 on SIGTERM, as the broker does, and when its standard input ends.
OBEDIENT = """
    import os, signal, sys
    def leave(*_):
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    print("OpenJDK warning: ready or not", flush=True)
    print("ready 127.0.0.1:4321", flush=True)
    sys.stdin.read()
"""


def test_lines_before_the_ready_line_do_not_disturb(fake_java: Callable[[str], Path]) -> None:
    fake_java(OBEDIENT)
    with EmbeddedBroker() as broker:
        assert broker.name_server == "127.0.0.1:4321"
        assert broker.is_running
    assert not broker.is_running


def test_a_broker_that_ends_before_it_is_ready_shows_its_last_words(
    fake_java: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_java("""
        import sys
        print("java.lang.Error: no luck\\n\\tat Some.frame(Some.java:1)", file=sys.stderr)
        sys.exit(3)
    """)
    data = tmp_path / "data"
    data.mkdir()
    (data / "broker.log").write_text("words of an earlier run\n")
    with pytest.raises(EmbeddedBrokerError) as error:
        EmbeddedBroker(data).start()
    assert error.value.exit_code == 3
    assert error.value.last_lines == ("java.lang.Error: no luck",)
    assert "ended before it was ready (exit code 3)" in str(error.value)


def test_a_broker_that_is_not_ready_in_time_is_killed(fake_java: Callable[[str], Path]) -> None:
    fake_java("""
        import os, sys
        print("my id is", os.getpid(), file=sys.stderr, flush=True)
        sys.stdin.read()
    """)
    with pytest.raises(EmbeddedBrokerError, match="was not ready within 500 ms and was killed"):
        EmbeddedBroker(start_timeout_ms=500).start()


def test_a_broker_that_ignores_sigterm_is_killed_and_that_is_an_error(
    fake_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_STOP_TIMEOUT_S", 0.2)
    fake_java("""
        import signal, sys
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready 127.0.0.1:4321", flush=True)
        sys.stdin.read()
    """)
    broker = EmbeddedBroker().start()
    pid = broker.pid
    assert pid is not None
    with pytest.raises(EmbeddedBrokerError, match="did not end within 0 s and was killed"):
        broker.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_broker_that_fails_to_close_is_an_error(fake_java: Callable[[str], Path]) -> None:
    fake_java("""
        import sys
        print("ready 127.0.0.1:4321", flush=True)
        sys.stdin.read()
    """)
    broker = EmbeddedBroker().start()
    with pytest.raises(EmbeddedBrokerError, match="ended with an error when it was stopped"):
        broker.stop()


def test_a_java_that_cannot_be_run_is_an_error(fake_java: Callable[[str], Path]) -> None:
    home = fake_java("")
    (home / "bin" / "java").write_text("#!/nowhere/at/all\n")
    with pytest.raises(EmbeddedBrokerError, match="bin/java cannot be run"):
        EmbeddedBroker().start()


def test_settings_reach_the_broker_in_a_file(
    fake_java: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_java(OBEDIENT)
    with EmbeddedBroker(tmp_path / "data", settings={"b": "2 = two", "a": "C:\\x"}):
        written = (tmp_path / "data" / "embedded.properties").read_text()
    assert written == "a=C\\:\\\\x\nb=2\\ \\=\\ two\n"


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4))
def test_a_properties_file_has_one_line_per_setting_whatever_they_hold(
    settings: dict[str, str],
) -> None:
    text = process.properties_text(settings)
    assert text.count("\n") == len(settings)
    assert "\r" not in text
