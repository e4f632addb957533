"""A source that has its rows ready: what Spark itself costs, without a broker and without decoding.

Every task yields the same Arrow batch again and again, of the shape that ``rmq-ordered`` gives, so
the rate of a query over it is the most that any Python source of these columns can reach here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rmq_ordered.columnar.schema import message_schema
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.rows import source_schema

# As many as the reader decodes at once.
_ROWS_AT_ONCE = 8_192
_PROPERTIES = [("KEYS", "key-100000"), ("UNIQ_KEY", "F" * 56), ("WAIT", "true"), ("TAGS", "TagA")]


class ReadySource(DataSource):
    """Options: ``queues``, ``batches``, ``rowsPerBatch``, ``bodyBytes``, ``includeProperties``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "ready"

    def schema(self) -> str:
        """The columns of ``rmq-ordered``."""
        given = {"nameServer": "none:1", "subscribe": "none", "group": "none"}
        given["includeProperties"] = str(self._has_properties).lower()
        return source_schema(SourceOptions.parse(given, streaming=True).rows)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream of so many batches."""
        numbers = [int(self.options[name]) for name in ("queues", "batches", "rowsPerBatch")]
        body_bytes = int(self.options["bodyBytes"])
        return _ReadyReader(*numbers, body_bytes, has_properties=self._has_properties)

    @property
    def _has_properties(self) -> bool:
        return self.options["includeProperties"] == "true"


class _ReadyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(
        self, queues: int, batches: int, rows: int, body_bytes: int, *, has_properties: bool
    ) -> None:
        self._queues = queues
        self._batches = batches
        self._rows = rows
        self._body_bytes = body_bytes
        self._has_properties = has_properties

    def prepareForTriggerAvailableNow(self) -> None:
        """The end is known anyway."""

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        return {"batch": min(self._batches, start["batch"] + 1 if start else 0)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        rows = self._rows // self._queues
        return [InputPartition(rows) for _ in range(self._queues) if end != start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = ready_batch(_ROWS_AT_ONCE, self._body_bytes, has_properties=self._has_properties)
        for left in range(partition.value, 0, -_ROWS_AT_ONCE):
            yield batch.slice(0, min(left, _ROWS_AT_ONCE))


def ready_batch(count: int, body_bytes: int, *, has_properties: bool) -> pa.RecordBatch:
    """Rows as the benchmarks' messages would be."""
    schema = message_schema(include_properties=has_properties)
    numbers = np.arange(count, dtype=np.int64)
    values: dict[str, Any] = {
        "key": pa.nulls(count, pa.string()),
        "value": pa.array([bytes(body_bytes)] * count, pa.binary()),
        "topic": pa.array(["load-1"] * count),
        "broker": pa.array(["broker-a"] * count),
        "queue": pa.array(np.zeros(count, np.int32)),
        "offset": pa.array(numbers),
        "timestamp": pa.array(numbers).view(schema.field("timestamp").type),
        "born_timestamp": pa.array(numbers).view(schema.field("timestamp").type),
        "tags": pa.array(["TagA"] * count),
        "index_keys": pa.array([f"key-{number}" for number in range(count)]),
        "message_id": pa.array(["F" * 56] * count),
        "reconsume_times": pa.array(np.zeros(count, np.int32)),
    }
    if has_properties:
        values["properties"] = pa.array([_PROPERTIES] * count, schema.field("properties").type)
    return pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)
