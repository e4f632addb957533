"""The embedded broker as a process: how it starts, ends, comes back and fails."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from rmq_ordered import Client, EmbeddedBroker, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.errors import EmbeddedBrokerError
from rmq_ordered.model import QueueRange

# Prints who and where it is, then waits for ever: only a signal ends it.
PARENT = """
import sys
from rmq_ordered import EmbeddedBroker
broker = EmbeddedBroker().start()
print(broker.pid, broker.name_server, broker.data, flush=True)
sys.stdin.read()
"""


def send(broker: EmbeddedBroker, topic: str, values: list[bytes]) -> None:
    with Client(broker.name_server) as client:
        producer = OrderedProducer(client, topic)
        for value in values:
            producer.send("key", value)


def read(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    with Client(broker.name_server) as client:
        spans = client.broker.topic_stats(topic)
        reader = QueueReader(client)
        return [
            value
            for queue, span in spans.items()
            for batch in reader.read(ReadPlan(QueueRange(queue, span.minimum, span.maximum)))
            for value in batch.column("value").to_pylist()
        ]


def create(broker: EmbeddedBroker, topic: str, queues: int = 2) -> None:
    with Client(broker.name_server) as client:
        client.broker.create_topic(topic, queues)


def accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_broker_serves_a_client_and_is_gone_after_the_block() -> None:
    with EmbeddedBroker() as broker:
        address, data = broker.name_server, broker.data
        create(broker, "orders")
        send(broker, "orders", [b"created", b"paid"])
        assert read(broker, "orders") == [b"created", b"paid"]
    assert not accepts_connections(address)
    assert not data.exists()
    broker.stop()


def test_messages_survive_a_restart_in_the_same_directory(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as first:
        create(first, "orders")
        send(first, "orders", [b"created"])
    with EmbeddedBroker(tmp_path / "data") as second:
        send(second, "orders", [b"paid"])
        assert read(second, "orders") == [b"created", b"paid"]


def test_a_killed_broker_comes_back_at_its_address_with_what_it_acknowledged(
    tmp_path: Path,
) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker:
        address = broker.name_server
        create(broker, "orders")
        send(broker, "orders", [b"created", b"paid"])
        broker.kill()
        assert not accepts_connections(address)
        broker.start()
        assert broker.name_server == address
        assert read(broker, "orders") == [b"created", b"paid"]


def test_a_broker_dies_with_its_parent_even_if_that_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        pid, address, data = parent.stdout.readline().split()
        try:
            assert accepts_connections(address)
            parent.kill()
            wait_until(lambda: not accepts_connections(address), "the port is free", 20)
            wait_until(lambda: not is_alive(int(pid)), "the broker's process is gone", 20)
        finally:
            parent.kill()
            subprocess.run(["rm", "-rf", data], check=True)


def test_a_broker_that_nobody_stopped_is_stopped_when_python_ends() -> None:
    program = PARENT.replace("sys.stdin.read()", "")
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    pid, address, data = answer.stdout.split()
    assert not is_alive(int(pid))
    assert not accepts_connections(address)
    assert not Path(data).exists()


def test_ctrl_c_in_the_terminal_does_not_reach_the_broker() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        # The terminal signals the processes of its foreground group; the broker is in another.
        assert os.getpgid(broker.pid) != os.getpgid(0)
        assert os.getsid(broker.pid) != os.getsid(0)


def test_a_port_in_use_is_a_clear_error() -> None:
    with EmbeddedBroker() as broker:
        with pytest.raises(EmbeddedBrokerError) as error:
            EmbeddedBroker(listen=broker.name_server).start()
        assert "ended before it was ready (exit code 1)" in str(error.value)
        assert "in use" in str(error.value)


def test_a_data_directory_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data"):
        with pytest.raises(EmbeddedBrokerError) as error:
            EmbeddedBroker(tmp_path / "data").start()
        assert f"{tmp_path / 'data'} is in use by another broker" in str(error.value)


def test_settings_reach_the_broker() -> None:
    with EmbeddedBroker(settings={"brokerName": "broker-z"}) as broker:
        create(broker, "orders")
        with Client(broker.name_server) as client:
            assert {queue.broker_name for queue in client.routes.readable("orders")} == {"broker-z"}


def test_an_unknown_setting_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(EmbeddedBrokerError) as error:
        EmbeddedBroker(settings={"brokerNam": "broker-z"}).start()
    assert error.value.exit_code == 2
    assert "Unknown setting 'brokerNam'. Did you mean brokerName?" in str(error.value)


def test_an_address_that_is_none_is_a_clear_error() -> None:
    with pytest.raises(EmbeddedBrokerError, match="An address is written HOST:PORT"):
        EmbeddedBroker(listen="nonsense").start()


def test_the_log_is_in_the_data_directory_and_warns_of_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        create(broker, "orders")
        send(broker, "orders", [b"created"])
    log = (tmp_path / "broker.log").read_text()
    assert "serving address=" in log
    assert "stopped address=" in log
    # From the JVM, from log4j and from the broker alike.
    assert [line for line in log.splitlines() if "WARN" in line.upper()] == []


def test_a_stop_by_signal_is_orderly(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path).start()
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGTERM)
    wait_until(lambda: not broker.is_running, "the broker is gone", 20)
    with pytest.raises(EmbeddedBrokerError) as error:
        broker.stop()
    assert error.value.exit_code == 0
    assert "stopped address=" in error.value.last_lines[-1]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected by its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
