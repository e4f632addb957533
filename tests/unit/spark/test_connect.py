"""Looking secrets up where the options say they are."""

from pathlib import Path

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SourceOptions
from rmq_ordered.protocol.acl import Credentials
from rmq_ordered.spark import connect


def options(**changes: str) -> SourceOptions:
    given = {"nameServer": "a:1", "subscribe": "orders", "group": "g", "accessKey": "me"} | changes
    return SourceOptions.parse(given, streaming=True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What clients are opened with."""
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(connect, "Client", lambda *args, **kwargs: seen.append(kwargs))
    return seen


def test_a_secret_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, opened: list[dict[str, object]]
) -> None:
    monkeypatch.setenv("MQ_SECRET", "hunter2")
    connect.open_client(options(secretKey="env:MQ_SECRET").connection)
    assert opened[0]["credentials"] == Credentials("me", "hunter2")


def test_secrets_are_read_from_files(tmp_path: Path, opened: list[dict[str, object]]) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    (tmp_path / "token").write_text("t0ken\n")
    given = options(secretKey=f"file:{tmp_path}/secret", securityToken=f"file:{tmp_path}/token")
    connect.open_client(given.connection)
    assert opened[0]["credentials"] == Credentials("me", "hunter2", "t0ken")
    assert "hunter2" not in repr(opened[0]["credentials"])


@pytest.mark.parametrize("reference", ["env:MQ_NOT_SET", "file:/nowhere/secret"])
def test_a_secret_that_is_not_there_is_named_by_its_place(reference: str) -> None:
    with pytest.raises(OptionError, match="on the driver and on every executor") as caught:
        connect.open_client(options(secretKey=reference).connection)
    assert caught.value.found == reference


def test_tls_files_reach_the_client(opened: list[dict[str, object]]) -> None:
    given = {"nameServer": "a:1", "subscribe": "orders", "group": "g", "tls": "true",
             "tlsCaFile": "ca.pem", "tlsCheckHost": "false"}  # fmt: skip
    connect.open_client(SourceOptions.parse(given, streaming=True).connection)
    tls = opened[0]["tls"]
    assert (tls.ca_file, tls.check_host) == ("ca.pem", False)  # type: ignore[attr-defined]
    assert opened[0]["credentials"] is None
