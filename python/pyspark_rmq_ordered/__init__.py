"""Makes ``format("rmq-ordered")`` work unregistered: Spark imports every ``pyspark_*`` package.

Keep this import light and safe: one failing import among all such packages hides every source.
"""

from rmq_ordered.spark.datasource import RmqOrderedDataSource as DefaultSource

__all__ = ["DefaultSource"]
