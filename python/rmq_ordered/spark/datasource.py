"""``format("rmq-ordered")``: where Spark enters."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SinkOptions, SourceOptions, parse_rows
from rmq_ordered.spark.batch import OrderedBatchReader
from rmq_ordered.spark.compat import connector_options
from rmq_ordered.spark.popping.stream import PoppingStreamReader
from rmq_ordered.spark.rows import ensure_source_schema, source_schema
from rmq_ordered.spark.sink import OrderedBatchWriter, OrderedStreamWriter
from rmq_ordered.spark.stream import OrderedStreamReader
from rmq_ordered.spark.writing.columns import SinkColumns


class RmqOrderedDataSource(DataSource):
    """Apache RocketMQ ordered topics.

    Name: ``rmq-ordered``. Found by Spark without registration once the package is installed.

    Source columns: key, value, topic, broker, queue, offset, timestamp, born_timestamp, tags,
    index_keys, message_id, reconsume_times, properties with ``includeProperties=true``, and _error
    with ``onDecodeError=null``.

    Options: ``docs/options.md``; ``nameServer`` always, ``subscribe`` and ``group`` to read,
    ``topic`` to write.

    Examples:
        A stream that owns its queues::

            spark.readStream.format("rmq-ordered").option("nameServer", "127.0.0.1:9876")
                .option("subscribe", "orders").option("group", "billing").load()

        One of several queries that share a group, at least once::

            spark.readStream.format("rmq-ordered").option("nameServer", "127.0.0.1:9876")
                .option("subscribe", "orders").option("group", "packing")
                .option("consumeMode", "pop").load()

        Rows with ``key`` and ``value`` to another topic, in order per key::

            df.writeStream.format("rmq-ordered").option("nameServer", "127.0.0.1:9876")
                .option("topic", "invoices").option("checkpointLocation", "/data/cp").start()
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = connector_options(options)

    @classmethod
    def name(cls) -> str:
        """The name in ``format``."""
        return "rmq-ordered"

    def schema(self) -> str:
        """The source's columns; asked first, so that a wrong option fails at ``load()``."""
        return source_schema(parse_rows(self._given))

    def streamReader(self, schema: StructType) -> OrderedStreamReader | PoppingStreamReader:
        """A stream that owns its queues, or one that pops and shares them."""
        options = SourceOptions.parse(self._given, streaming=True)
        ensure_source_schema(schema, options.rows)
        if options.popping is not None:
            return PoppingStreamReader(options, options.popping, schema)
        return OrderedStreamReader(options, schema)

    def reader(self, schema: StructType) -> OrderedBatchReader:
        """A bounded read."""
        options = SourceOptions.parse(self._given, streaming=False)
        ensure_source_schema(schema, options.rows)
        return OrderedBatchReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> OrderedStreamWriter:
        """A streaming sink; complete mode arrives as overwrite, and each batch is appended."""
        options = SinkOptions.parse(self._given, streaming=True)
        return OrderedStreamWriter(options, SinkColumns.of(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> OrderedBatchWriter:
        """A batch sink."""
        if overwrite:
            raise OptionError("mode", "overwrite", "append: messages of a topic cannot be replaced")
        options = SinkOptions.parse(self._given)
        return OrderedBatchWriter(options, SinkColumns.of(schema, options))
