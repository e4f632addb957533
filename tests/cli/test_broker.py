"""``rmq-ordered broker`` as a real process, as a script or a service manager sees it."""

import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Spawn
from tests.support.waiting import wait_until

from rmq_ordered import Client, EmbeddedBroker


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_one_ready_line_then_service_then_a_clean_end(
    spawn: Spawn, tmp_path: Path, ending: signal.Signals
) -> None:
    broker = spawn("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert broker.stdout is not None
    word, address = broker.stdout.readline().decode().split()
    assert word == "ready"
    with Client(address) as client:
        client.broker.create_topic("orders", 2)
        assert len(client.routes.readable("orders")) == 2
    broker.send_signal(ending)
    assert broker.wait(20) == 0
    assert broker.stdout.read() == b""
    assert "stopped address=" in (tmp_path / "stderr").read_text()


def test_a_configuration_file_is_read(spawn: Spawn, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(
        f"brokerName=broker-z\nlistenPort=0\nstorePathRootDir={tmp_path / 'elsewhere'}\n"
    )
    broker = spawn("broker", "--config", str(config))
    assert broker.stdout is not None
    address = broker.stdout.readline().decode().removeprefix("ready ").strip()
    with Client(address) as client:
        assert [found.name for found in client.routes.brokers()] == ["broker-z"]
    assert (tmp_path / "elsewhere").is_dir()


def test_a_port_in_use_is_one_sentence_and_exit_code_1(
    spawn: Spawn, tmp_path: Path, embedded_broker: EmbeddedBroker
) -> None:
    address = embedded_broker.name_server
    broker = spawn("broker", "--listen", address, "--data", str(tmp_path / "data"))
    assert broker.wait(30) == 1
    assert broker.stdout is not None
    assert broker.stdout.read() == b""
    sentence = (tmp_path / "stderr").read_text().strip()
    assert "in use" in sentence
    assert "\n" not in sentence
    assert address in sentence


def test_a_wrong_address_is_a_usage_error(spawn: Spawn, tmp_path: Path) -> None:
    broker = spawn("broker", "--listen", "nonsense", "--data", str(tmp_path / "data"))
    assert broker.wait(30) == 2
    assert "HOST:PORT" in (tmp_path / "stderr").read_text()


def test_the_broker_goes_on_when_its_standard_input_ends(spawn: Spawn, tmp_path: Path) -> None:
    broker = spawn("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert broker.stdin is not None
    assert broker.stdout is not None
    broker.stdin.close()
    address = broker.stdout.readline().decode().removeprefix("ready ").strip()
    wait_until(lambda: "serving address=" in (tmp_path / "stderr").read_text(), "it serves", 20)
    with Client(address) as client:
        assert client.routes.brokers()
