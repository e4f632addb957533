"""``rmq-ordered broker`` as a real process, as a script or a service manager sees it."""

import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Spawn
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered import Client, EmbeddedBroker
from rmq_ordered.client import OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.errors import OffsetOutOfRange
from rmq_ordered.model import QueueRange


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


@proves("damaged-log-repaired", "damaged-log-stops")
def test_a_damaged_log_stops_the_broker_until_it_is_repaired_and_the_loss_is_told(
    spawn: Spawn, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    settings = tmp_path / "broker.conf"
    # The checkpoint is from the start: nothing but the seals says what was on disk.
    settings.write_text("checkpointIntervalMs=600000\n")
    arguments = ("broker", "--listen", "127.0.0.1:0", "--data", str(data), "--config")
    broker = spawn(*arguments, str(settings))
    assert broker.stdout is not None
    with Client(broker.stdout.readline().decode().split()[1]) as client:
        client.broker.create_topic("orders", 1)
        producer = OrderedProducer(client, "orders")
        sent = [producer.send("k", b"message %d" % n) for n in range(10)]
        queue = sent[0].queue
    broker.kill()
    broker.wait(20)
    log = data / "commitlog" / f"{0:020}"
    content = bytearray(log.read_bytes())
    content[content.index(b"message 4")] ^= 1
    log.write_bytes(content)

    broker = spawn(*arguments, str(settings))
    assert broker.wait(30) == 1
    told = (tmp_path / "stderr").read_text()
    assert str(log) in told
    assert "--repair" in told
    assert log.read_bytes() == content

    broker = spawn(*arguments, str(settings), "--repair")
    assert broker.stdout is not None
    with Client(broker.stdout.readline().decode().split()[1]) as client:
        reader = QueueReader(client)

        def offsets(start: int, end: int) -> list[int]:
            rows = reader.read(ReadPlan(QueueRange(queue, start, end)))
            return [offset for batch in rows for offset in batch.column("offset").to_pylist()]

        assert offsets(0, 4) == [0, 1, 2, 3]
        assert offsets(5, 10) == [5, 6, 7, 8, 9]
        with pytest.raises(OffsetOutOfRange):
            offsets(0, 10)
    assert len(list((data / "damaged").iterdir())) == 1
