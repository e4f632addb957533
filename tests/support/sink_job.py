"""A pipeline of its own process: everything that is there now from one topic to another.

python tests/support/sink_job.py '{"conf": {}, "source": {}, "sink": {}}'
"""

import json
import sys

from pyspark.sql import SparkSession


def main(specification: dict[str, dict[str, str]]) -> None:
    builder = SparkSession.builder.appName("sink job")
    for name, value in specification["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.readStream.format("rmq-ordered").options(**specification["source"]).load()
    query = (
        rows.select("key", "value")
        .writeStream.format("rmq-ordered")
        .options(**specification["sink"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
