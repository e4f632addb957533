"""The Spark side: the only package that imports pyspark and uses Spark's words."""

from rmq_ordered.spark.keyed import by_key

__all__ = ["by_key"]
