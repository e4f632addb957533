import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import EmbeddedBrokerError

READY = """
    import os, signal, sys
    def leave(*_):
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    print("arguments", sys.argv, file=sys.stderr, flush=True)
    print("ready 127.0.0.1:4321", flush=True)
    sys.stdin.read()
    os._exit(0)  # a signal during the interpreter's own farewell would count as a crash
"""


def test_a_temporary_directory_lasts_from_start_to_stop(fake_java: Callable[[str], Path]) -> None:
    fake_java(READY)
    broker = EmbeddedBroker().start()
    data = broker.data
    assert data.is_dir()
    broker.kill()
    assert data.is_dir()
    broker.start()
    assert broker.data == data
    broker.stop()
    assert not data.exists()


def test_a_directory_of_the_user_is_made_and_kept(
    fake_java: Callable[[str], Path], tmp_path: Path
) -> None:
    fake_java(READY)
    data = tmp_path / "a" / "b"
    with EmbeddedBroker(str(data)) as broker:
        assert broker.data == data
    assert data.is_dir()


def test_stop_is_idempotent_and_kill_needs_a_running_broker(
    fake_java: Callable[[str], Path],
) -> None:
    fake_java(READY)
    broker = EmbeddedBroker().start()
    broker.stop()
    broker.stop()
    with pytest.raises(EmbeddedBrokerError, match="is not started"):
        broker.kill()


def test_before_start_there_is_no_address_and_the_error_says_what_to_do() -> None:
    broker = EmbeddedBroker()
    for attribute in ("name_server", "data", "pid"):
        with pytest.raises(EmbeddedBrokerError, match=r"call start\(\)"):
            getattr(broker, attribute)
    assert not broker.is_running


def test_a_second_start_is_refused(fake_java: Callable[[str], Path]) -> None:
    fake_java(READY)
    with (
        EmbeddedBroker() as broker,
        pytest.raises(EmbeddedBrokerError, match="was started already"),
    ):
        broker.start()


def test_a_restart_asks_for_the_same_port(fake_java: Callable[[str], Path], tmp_path: Path) -> None:
    fake_java(READY)
    with EmbeddedBroker(tmp_path / "data") as broker:
        broker.stop()
        broker.start()
    first, second = (tmp_path / "data" / "broker.log").read_text().splitlines()
    assert "'--listen', '127.0.0.1:0'" in first
    assert "'--listen', '127.0.0.1:4321'" in second


def test_a_broker_that_died_meanwhile_is_an_error_at_stop(
    fake_java: Callable[[str], Path],
) -> None:
    fake_java(READY)
    broker = EmbeddedBroker().start()
    _crash(broker)
    with pytest.raises(EmbeddedBrokerError, match="had died before it was stopped"):
        broker.stop()


def test_an_error_of_the_body_is_not_hidden_by_one_of_the_broker(
    fake_java: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    fake_java(READY)

    def body() -> None:
        with EmbeddedBroker() as broker:
            _crash(broker)
            raise KeyError("mine")

    with caplog.at_level(logging.WARNING), pytest.raises(KeyError, match="mine"):
        body()
    assert "had died before it was stopped" in caplog.text


def test_a_data_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedBrokerError, match="file/data cannot be made"):
        EmbeddedBroker(tmp_path / "file" / "data").start()


def _crash(broker: EmbeddedBroker) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: not broker.is_running, "the broker is gone", 10)
