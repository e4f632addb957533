"""The embedded broker inside a driver's JVM, through py4j."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rmq_ordered import Client, EmbeddedBroker, OrderedProducer
from rmq_ordered.errors import EmbeddedBrokerError, TransportError


def test_a_broker_runs_in_the_drivers_jvm_until_it_is_stopped(spark: SparkSession) -> None:
    with EmbeddedBroker(spark=spark) as broker:
        address, data = broker.name_server, broker.data
        assert broker.pid is None
        assert broker.is_running
        with Client(address) as client:
            client.broker.create_topic("orders", 2)
            assert OrderedProducer(client, "orders").send("key", b"created").first_offset == 0
    assert not broker.is_running
    assert not data.exists()
    with Client(address) as client, pytest.raises(TransportError):
        client.routes.brokers()


def test_messages_survive_a_restart_in_the_drivers_jvm(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, spark=spark) as broker, Client(broker.name_server) as client:
        client.broker.create_topic("orders", 1)
        OrderedProducer(client, "orders").send("key", b"created")
    with EmbeddedBroker(tmp_path, spark=spark) as broker, Client(broker.name_server) as client:
        assert [span.maximum for span in client.broker.topic_stats("orders").values()] == [1]


def test_two_brokers_run_side_by_side_in_one_driver(spark: SparkSession) -> None:
    with EmbeddedBroker(spark=spark) as one, EmbeddedBroker(spark=spark) as two:
        assert one.name_server != two.name_server
        with Client(one.name_server) as client:
            client.broker.create_topic("orders", 1)
        with Client(two.name_server) as client:
            assert "orders" not in client.routes.topics()


def test_settings_reach_a_broker_in_the_drivers_jvm(spark: SparkSession) -> None:
    with (
        EmbeddedBroker(spark=spark, settings={"brokerName": "broker-z"}) as broker,
        Client(broker.name_server) as client,
    ):
        assert [found.name for found in client.routes.brokers()] == ["broker-z"]


def test_a_failure_in_the_drivers_jvm_is_told_with_its_reason(spark: SparkSession) -> None:
    with pytest.raises(EmbeddedBrokerError, match="Unknown setting 'brokerNam'"):
        EmbeddedBroker(spark=spark, settings={"brokerNam": "broker-z"}).start()


def test_a_broker_in_the_drivers_jvm_cannot_be_killed_alone(spark: SparkSession) -> None:
    with (
        EmbeddedBroker(spark=spark) as broker,
        pytest.raises(EmbeddedBrokerError, match="cannot be killed without the driver"),
    ):
        broker.kill()
