"""A PySpark pipeline that keeps the order of an ordered topic: read, transform, write.

Run it again after a crash with the same checkpoint and it goes on where it stopped:

    python examples/ordered_pipeline.py --name-server 127.0.0.1:9876 --checkpoint /tmp/checkpoint
"""

from __future__ import annotations

import argparse
import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

ORDER_SCHEMA = "order_id string, sequence int, event string, amount_cents long"


def invoices(orders: DataFrame) -> DataFrame:
    """One invoice line per order event; the key stays, so the order per key stays."""
    event = F.from_json(F.col("value").cast("string"), ORDER_SCHEMA)
    line = F.struct(
        event.order_id.alias("order_id"),
        event.sequence.alias("sequence"),
        F.upper(event.event).alias("line"),
        (event.amount_cents * 119 / 100).cast("long").alias("gross_cents"),
    )
    return orders.select("key", F.to_json(line).alias("value"))


def main() -> None:
    """Process everything that is there now, then stop."""
    arguments = _arguments()
    # Executors must run the Python that has rmq-ordered, not whichever "python3" comes first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.appName("ordered-pipeline")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    orders = (
        spark.readStream.format("rmq-ordered")
        .option("nameServer", arguments.name_server)
        .option("subscribe", "orders")
        .option("group", "billing")
        .option("instanceId", "billing-pipeline")
        .option("maxOffsetsPerTrigger", arguments.batch)
        .load()
    )
    query = (
        invoices(orders)
        .writeStream.format("rmq-ordered")
        .option("nameServer", arguments.name_server)
        .option("topic", "invoices")
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--name-server", required=True, help="host:port of a name server")
    parser.add_argument("--checkpoint", required=True, help="where the query keeps its progress")
    parser.add_argument("--batch", default="10000", help="offsets per micro-batch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
