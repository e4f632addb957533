"""Popping readers of one topic on both brokers, made and stopped without a Spark."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.support.brokers import Broker

from rmq_ordered.options import PopOptions, SourceOptions
from rmq_ordered.spark.popping.stream import PoppingStreamReader

NewPopper = Callable[..., PoppingStreamReader]


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("popping", 2)


@pytest.fixture
def pop_options(broker: Broker, topic: str, group: str) -> dict[str, str]:
    return {
        "nameServer": broker.name_server,
        "subscribe": topic,
        "group": group,
        "requestTimeout": "15s",
        "consumeMode": "pop",
    }


@pytest.fixture
def new_popper(pop_options: dict[str, str]) -> Iterator[NewPopper]:
    """Makes readers, as new runs would, and stops them; ``invisible_ms`` may be too short."""
    readers: list[PoppingStreamReader] = []

    def make(invisible_ms: int | None = None, **changes: str) -> PoppingStreamReader:
        options = SourceOptions.parse(pop_options | changes, streaming=True)
        assert options.popping is not None
        how = options.popping
        if invisible_ms is not None:
            how = PopOptions(invisible_ms, how.is_orderly)
        readers.append(PoppingStreamReader(replace(options, popping=how), how))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()
