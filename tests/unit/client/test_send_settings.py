"""Settings of sends are checked when they are made."""

import pickle

import pytest

from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.errors import OptionError


def test_the_defaults_are_safe_and_can_be_shipped() -> None:
    settings = SendSettings()
    assert settings.idempotent
    assert settings.on_divergence == settings.on_layout_change == "fail"
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_bytes", 0),
        ("batch_bytes", 5 * 1024 * 1024),
        ("batch_rows", 0),
        ("buffer_bytes", -1),
        ("send_timeout_ms", 0),
        ("compress_over_bytes", 0),
    ],
)
def test_a_number_that_cannot_work_is_refused(field: str, value: int) -> None:
    with pytest.raises(OptionError, match=str(value)):
        SendSettings(**{field: value})  # type: ignore[arg-type]
