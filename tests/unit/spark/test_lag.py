"""The listeners, fed with progress as Spark reports it."""

import json
import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import Positions, SourceOffset, encode_offset
from rmq_ordered.ordering.popped import PoppedOffset, encode_popped
from rmq_ordered.ordering.report import SourceReport, encode_report
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH
from rmq_ordered.spark.lag import LagListener, OffsetCommitListener
from rmq_ordered.spark.popping.notes import FinishedNotes
from rmq_ordered.testing import ClusterDouble

A, B = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
OPTIONS = {"nameServer": "names-1:9876", "subscribe": "orders", "group": "billing"}


def text(positions: Positions) -> str:
    return json.dumps(encode_offset(SourceOffset(positions)))


def progress(
    *sources: tuple[str | None, str | None], name: str = "bills", start: str | None = None
) -> Any:
    """An event with the end and latest offsets of these sources, which all began at the start."""
    found = [
        SimpleNamespace(startOffset=start, endOffset=end, latestOffset=latest)
        for end, latest in sources
    ]
    return SimpleNamespace(progress=SimpleNamespace(id="id-1", name=name, sources=found))


def test_lag_is_logged_and_can_be_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    now = iter([0, 5_000])
    listener = LagListener(now_ms=lambda: next(now))
    with caplog.at_level(logging.INFO, "rmq_ordered.lag"):
        listener.onQueryProgress(progress((text({A: 5, B: 9}), text({A: 8, B: 9}))))
        listener.onQueryProgress(progress((text({A: 5, B: 9}), text({A: 8, B: 10}))))
    assert "query=bills unread=4 oldest_unread_ms=5000" in caplog.text
    assert "furthest=[orders@broker-a#0=3, orders@broker-a#1=1]" in caplog.text
    assert [lag.unread for lag in listener.lags("id-1")] == [3, 1]
    assert "stalled" not in caplog.text


def test_a_queue_that_stands_still_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    now = iter([0, 60_000])
    listener = LagListener(now_ms=lambda: next(now))
    for position in (0, 3):
        listener.onQueryProgress(progress((text({A: 5, B: position}), text({A: 8, B: 9}))))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "query=bills queue=orders@broker-a#0 is stalled at position=5 with unread=3 for_ms=60000"
    ]


def test_a_queue_that_others_read_is_counted_and_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = iter([0, 60_000])
    listener = LagListener(now_ms=lambda: next(now))
    with caplog.at_level(logging.INFO, "rmq_ordered.lag"):
        for _ in range(2):
            listener.onQueryProgress(progress((text({A: 5, B: 9}), text({B: 9}))))
    assert [lag.queue for lag in listener.lags("id-1")] == [B]
    assert "queues_behind=0 queues_not_read=1" in caplog.text
    assert "stalled" not in caplog.text


def test_other_sources_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener()
    others = [('{"orders":{"0":5}}', None), ("7", "9"), (None, None), ("not json", ""),
              ('{"topics":5,"version":9}', None)]  # fmt: skip
    listener.onQueryProgress(progress(*others))
    assert listener.lags("id-1") == []
    assert caplog.text == ""


def test_a_query_that_ended_is_forgotten() -> None:
    listener = LagListener()
    listener.onQueryProgress(progress((text({A: 5}), None)))
    assert len(listener.lags("id-1")) == 1
    listener.onQueryTerminated(SimpleNamespace(id="id-1"))
    assert listener.lags("id-1") == []


@pytest.fixture
def committer(cluster: ClusterDouble, monkeypatch: pytest.MonkeyPatch) -> OffsetCommitListener:
    monkeypatch.setattr("rmq_ordered.spark.lag.open_client", lambda options: cluster.client())
    return OffsetCommitListener(OPTIONS)


def reported(
    epochs: Mapping[MessageQueue, int | None], group: str = "billing", owner: str = "spark-1"
) -> str:
    """What a source tells that reads these queues, of ten messages each."""
    report = SourceReport(dict.fromkeys(epochs, 10), group, owner, epochs)
    return json.dumps(encode_report(report))


UNFENCED = reported({A: None, B: None})


def test_a_finished_batch_is_committed_and_no_offset_goes_back(
    cluster: ClusterDouble, committer: OffsetCommitListener, client: Client
) -> None:
    committed = cluster.brokers[0].committed
    committed["billing", A] = committed["billing", B] = 0
    committer.onQueryProgress(progress((text({A: 5, B: 7}), UNFENCED), start=text({A: 0, B: 0})))
    assert committed == {("billing", A): 5, ("billing", B): 7}
    committed["billing", A] = 9  # the source itself was faster
    committer.onQueryProgress(progress((text({A: 8, B: 8}), UNFENCED), start=text({A: 5, B: 7})))
    assert committed == {("billing", A): 9, ("billing", B): 8}
    committer.close()
    committer.close()


def test_the_first_batch_of_a_query_is_committed_too(
    cluster: ClusterDouble, committer: OffsetCommitListener, client: Client
) -> None:
    committed = cluster.brokers[0].committed
    committed["billing", A] = 3
    end = json.dumps(encode_offset(SourceOffset({A: 5}, {A: 3})))
    committer.onQueryProgress(progress((end, reported({A: None}))))
    assert committed == {("billing", A): 5}


@proves("listener-commits-own-group")
@pytest.mark.parametrize(
    "latest",
    [
        reported({A: None, B: None}, group="audit"),
        text({A: 10, B: 10}),
        None,
        reported({}),
        json.dumps(json.loads(text({A: 10})) | {"group": "billing"}),
    ],
    ids=["another group", "no leases", "untold", "owns neither", "no report"],
)
def test_a_query_of_another_group_or_without_leases_is_left_alone(
    cluster: ClusterDouble, committer: OffsetCommitListener, client: Client, latest: str | None
) -> None:
    committed = cluster.brokers[0].committed
    committed["billing", A] = committed["billing", B] = 0
    committer.onQueryProgress(progress((text({A: 5, B: 7}), latest), start=text({A: 0, B: 0})))
    assert committed == {("billing", A): 0, ("billing", B): 0}


@proves("listener-commits-own-group")
def test_without_epochs_only_what_goes_on_from_where_the_group_stands_is_committed(
    cluster: ClusterDouble,
    committer: OffsetCommitListener,
    client: Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    committed = cluster.brokers[0].committed
    committed["billing", A], committed["billing", B] = 4, 3
    committer.onQueryProgress(progress((text({A: 9, B: 8}), UNFENCED), start=text({A: 2, B: 3})))
    assert committed == {("billing", A): 4, ("billing", B): 8}
    assert (
        "not committed count=1 group=billing: it stands at 4 of queue=orders@broker-a#0, and this "
        "batch began at 2" in caplog.text
    )


@proves("listener-commits-own-group")
def test_a_run_whose_lease_is_over_commits_nothing_in_the_name_of_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ClusterDouble(features=frozenset({FEATURE_LEASE_EPOCH}))
    cluster.brokers[0].add_topic("orders", 2)
    monkeypatch.setattr("rmq_ordered.spark.lag.open_client", lambda options: cluster.client())
    with cluster.client() as client:
        (answer,) = client.broker.lock("billing", "spark-1", [A])
        event = progress((text({A: 5}), reported({A: answer.epoch})), start=text({A: 0}))
        client.broker.unlock("billing", "spark-1", [A])
        client.broker.lock("billing", "spark-2", [A])
        listener = OffsetCommitListener(OPTIONS)
        listener.onQueryProgress(event)
        assert cluster.brokers[0].committed == {}
        assert "offsets of group=billing were not committed" in caplog.text
        assert "spark-1" in caplog.text
        (answer,) = client.broker.lock("billing", "spark-2", [A])
        owned = reported({A: answer.epoch}, owner="spark-2")
        listener.onQueryProgress(progress((text({A: 5}), owned), start=text({A: 0})))
    assert cluster.brokers[0].committed == {("billing", A): 5}


def test_a_commit_that_fails_is_logged_and_disturbs_nothing(
    cluster: ClusterDouble, committer: OffsetCommitListener, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.brokers[0].topics.clear()
    committer.onQueryProgress(progress((text({A: 5}), UNFENCED), start=text({A: 0})))
    assert "offsets of group=billing were not committed" in caplog.text


def popped(batch: int, group: str = "billing", run: str = "run-1") -> str:
    return json.dumps(encode_popped(PoppedOffset(batch, group, run)))


@pytest.fixture
def popping_committer(
    cluster: ClusterDouble, monkeypatch: pytest.MonkeyPatch
) -> OffsetCommitListener:
    monkeypatch.setattr("rmq_ordered.spark.lag.open_client", lambda options: cluster.client())
    return OffsetCommitListener(OPTIONS | {"consumeMode": "pop"})


def test_a_popping_source_is_told_of_its_finished_batches_and_nobody_else(
    cluster: ClusterDouble, popping_committer: OffsetCommitListener, client: Client
) -> None:
    notes = FinishedNotes(client.kv, "billing")
    others = [(popped(9, group="audit"), None), (popped(9, run=""), None), (text({A: 5}), None),
              ("not json", None), ('{"popped":5,"version":1}', None), (None, None)]  # fmt: skip
    popping_committer.onQueryProgress(progress((popped(3), None), *others))
    assert notes.told("run-1") == 3
    assert client.kv.list("rmq-ordered-pop@audit") == {}
    assert cluster.brokers[0].committed == {}


def test_a_note_that_cannot_be_written_is_logged_and_disturbs_nothing(
    cluster: ClusterDouble,
    popping_committer: OffsetCommitListener,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.network.take_down("names-1:9876")
    popping_committer.onQueryProgress(progress((popped(3), None)))
    assert "a finished batch of group=billing was not told" in caplog.text


def test_lag_of_a_popping_source_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener()
    listener.onQueryProgress(progress((popped(3), None)))
    assert listener.lags("id-1") == []


def test_a_committer_needs_a_group() -> None:
    with pytest.raises(OptionError, match="group"):
        OffsetCommitListener({"nameServer": "a:1", "subscribe": "orders", "leaseMode": "none",
                              "startingOffsets": "earliest"})  # fmt: skip
