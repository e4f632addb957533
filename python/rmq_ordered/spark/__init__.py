"""The Spark side: the only package that imports pyspark and uses Spark's words."""

import pyspark as _pyspark

from rmq_ordered.spark.compat import ensure_supported as _ensure_supported

# Before any other module of this package is imported: an older Spark lacks what they import.
_ensure_supported(_pyspark.__version__)

from rmq_ordered.spark.keyed import by_key  # noqa: E402

__all__ = ["by_key"]
