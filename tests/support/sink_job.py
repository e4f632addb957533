"""Pipelines from topic to topic, one after the other in one driver, as they are asked for.

Usage: ``sink_job.py CONF`` with Spark's settings as JSON. Each line of standard input is one
pipeline, ``{"source": {...}, "sink": {...}}``: everything that is there now goes from one topic to
the other. Each is answered by a line, ``ended`` or ``failed``; what went wrong is on standard
error. Ends with its input.
"""

import json
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession


def run(spark: SparkSession, source: dict[str, str], sink: dict[str, str]) -> str:
    """Run one pipeline to its end."""
    rows = spark.readStream.format("rmq-ordered").options(**source).load()
    query = (
        rows.select("key", "value")
        .writeStream.format("rmq-ordered")
        .options(**sink)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error, file=sys.stderr)
        return "failed"
    return "ended"


def main(conf: dict[str, str]) -> None:
    """Serve until there is no more input."""
    builder = SparkSession.builder.appName("sink job")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        print(run(spark, **json.loads(line)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
