"""Starting the Scala broker from Python: as a child process, or inside a Spark driver's JVM.

>>> from rmq_ordered.embedded import EmbeddedBroker     # doctest: +SKIP
>>> with EmbeddedBroker() as broker:                    # doctest: +SKIP
...     print(broker.name_server)

Nothing here imports pyspark: the broker runs on the jars in PySpark's folder, which are found by
name.
"""

from rmq_ordered.embedded.broker import EmbeddedBroker

__all__ = ["EmbeddedBroker"]
