"""The order of a task's rows, and the options in the client's words."""

import pyarrow as pa
import pytest

from rmq_ordered.client import Compression, OnDivergence, OnLayoutChange, Selector
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.options import SinkOptions, ValueFormat
from rmq_ordered.spark.writing.columns import SinkColumns
from rmq_ordered.spark.writing.task import in_sequence, send_settings

TAKEN = (("value", "value"), ("key", "key"))
SORTED = SinkColumns(TAKEN, ValueFormat.RAW, topic_column=False, sequence="n")


def rows(*found: tuple[str, int | None, str]) -> pa.RecordBatch:
    keys, numbers, values = zip(*found, strict=True)
    return pa.record_batch(
        {"key": list(keys), "n": pa.array(numbers, pa.int64()), "value": list(values)}
    )


def values(*batches: pa.RecordBatch) -> list[str]:
    found = in_sequence(iter(batches), SORTED)
    return [value for batch in found for value in batch.column("value").to_pylist()]


def test_rows_are_sorted_over_all_batches_and_ties_of_a_key_stay_as_they_came() -> None:
    first = rows(("b", 2, "b2"), ("a", 2, "a2"), ("a", 1, "a1"))
    second = rows(("b", 1, "b1"), ("a", 2, "a2 again"), ("c", 0, "c0"))
    assert values(first, second) == ["c0", "a1", "b1", "a2", "a2 again", "b2"]


def test_a_replay_that_a_shuffle_has_mixed_has_the_same_order() -> None:
    first = rows(("b", 2, "b2"), ("a", 2, "a2"))
    second = rows(("c", 2, "c2"), ("d", 1, "d1"))
    assert values(first, second) == values(second, first)


def test_no_rows_are_no_batches() -> None:
    assert values() == []
    assert values(rows(("a", 1, "x")).slice(0, 0)) == []


def test_a_row_without_a_number_is_refused_with_its_key() -> None:
    with pytest.raises(LocalProtocolError, match="the row with key 'b' has null in the column 'n'"):
        values(rows(("a", 1, "x"), ("b", None, "y")))


def test_without_a_column_rows_stay_as_they_are_and_are_not_collected() -> None:
    plain = SinkColumns(TAKEN, ValueFormat.RAW, topic_column=False, sequence=None)
    stream = iter([rows(("b", 2, "x")), rows(("a", 1, "y"))])
    assert next(in_sequence(stream, plain)).column("value").to_pylist() == ["x"]


def test_options_become_settings() -> None:
    options = SinkOptions.parse(
        {
            "nameServer": "mq1:9876",
            "topic": "t",
            "selector": "roundrobin",
            "compression": "lz4",
            "onReplayDivergence": "resend",
            "onQueueLayoutChange": "rehash",
            "batchBytes": "64k",
        }
    )
    settings = send_settings(options)
    assert settings.selector is Selector.ROUND_ROBIN
    assert settings.compression is Compression.LZ4
    assert settings.on_divergence is OnDivergence.RESEND
    assert settings.on_layout_change is OnLayoutChange.REHASH
    assert (settings.idempotent, settings.batch_bytes) == (True, 65_536)
    plain = SinkOptions.parse({"nameServer": "mq1:9876", "idempotent": "false"})
    assert not send_settings(plain).idempotent
