"""Bringing the rows of a key together, for frames that do not come straight from the source."""

from __future__ import annotations

from pyspark.sql import DataFrame


def by_key(frame: DataFrame, key: str = "key", *, partitions: int | None = None) -> DataFrame:
    """The same rows, with all rows of a key in one task.

    Spark's shuffle keeps the order of rows that come from one task; what it merges from several it
    merges in any order. So order per key is kept if each key came from one task (as from the
    source, where a key lives in one queue); otherwise, and to make replays of a batch alike, set
    ``sequenceColumn`` on the sink as well.

    Args:
        frame: a batch or a stream.
        key: the column with the sharding key.
        partitions: how many tasks; by default ``spark.sql.shuffle.partitions``. The number is
            always fixed, because a replayed batch must be cut into the same tasks.
    """
    count = partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    return frame.repartition(count, key)
