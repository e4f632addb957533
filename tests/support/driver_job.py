"""A Spark driver of its own: one streaming query whose batches become files; run by its path.

Usage: ``driver_job.py SPECIFICATION`` with JSON: options, checkpoint, output, trigger, conf,
register and stuck. A batch is one file, renamed into place when it is whole; a failure is
``failure.txt``. With stuck no batch ever ends.
"""

import json
import sys
import threading
import uuid
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the query until it ends."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    given = json.loads(sys.argv[1])
    output = Path(given["output"])
    builder = SparkSession.builder.appName("driver")
    for name, value in given["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    (output / "version.txt").write_text(spark.version)
    if given["register"]:
        import rmq_ordered
        from rmq_ordered.spark.datasource import RmqOrderedDataSource

        (output / "module.txt").write_text(str(rmq_ordered.__file__))
        spark.dataSource.register(RmqOrderedDataSource)

    def keep(batch: Any, batch_id: int) -> None:
        rows = batch.selectExpr("broker", "queue", "offset", "key", "string(value)").collect()
        if given["stuck"]:
            threading.Event().wait()
        whole = json.dumps({"batch": batch_id, "rows": [list(row) for row in rows]})
        draft = output / f"{batch_id:06}.{uuid.uuid4().hex}.draft"
        draft.write_text(whole)
        draft.rename(draft.with_suffix(".json"))

    try:
        query = (
            spark.readStream.format("rmq-ordered")
            .options(**given["options"])
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", given["checkpoint"])
            .trigger(**given["trigger"])
            .start()
        )
        query.awaitTermination()
    except StreamingQueryException as error:
        (output / "failure.txt").write_text(str(error))
        sys.exit(3)


if __name__ == "__main__":
    main()
