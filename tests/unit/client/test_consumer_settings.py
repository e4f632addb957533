"""Settings of a consumer are checked where they are made."""

from typing import Any

import pytest

from rmq_ordered.client import ConsumerSettings, StartPoint
from rmq_ordered.client.leases import RENEW_MS, TRUST_MS
from rmq_ordered.errors import OptionError


def test_the_defaults_are_those_of_java() -> None:
    settings = ConsumerSettings()
    assert (settings.threads, settings.batch_size, settings.max_reconsume_times) == (20, 1, -1)
    assert (settings.suspend_ms, settings.rebalance_ms) == (1_000, 20_000)
    assert (settings.renew_ms, settings.trust_ms) == (RENEW_MS, TRUST_MS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": 0},
        {"batch_size": 0},
        {"buffered_messages": 0},
        {"renew_ms": 30_000},
        {"renew_ms": 0},
        {"start": StartPoint.TIMESTAMP},
        {"start_timestamp_ms": 5},
    ],
    ids=repr,
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        ConsumerSettings(**wrong)


def test_a_time_to_start_at_goes_with_its_start_point() -> None:
    settings = ConsumerSettings(start=StartPoint.TIMESTAMP, start_timestamp_ms=5)
    assert settings.start_timestamp_ms == 5
