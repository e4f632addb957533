"""The broker inside a Spark driver's JVM, through the py4j gateway of a classic session.

The session is duck-typed (``_jvm``): this layer must not import pyspark. The broker shares the
driver's heap and log, and outlives ``spark.stop()``, because the JVM does: it must be closed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rmq_ordered.embedded.classpath import broker_jar
from rmq_ordered.errors import EmbeddedBrokerError, EmbeddedBrokerUnavailable

_LOG: Final = logging.getLogger("rmq_ordered.embedded")
_CLASS: Final = "rmqordered.EmbeddedBroker"
_GROWING_LOADER: Final = "org.apache.spark.util.MutableURLClassLoader"


class DriverBroker:
    """A broker that runs in the driver's JVM.

    Args:
        session: a classic SparkSession.
        data: an existing directory.
        listen: ``host:port``; port 0 picks a free one.
        settings: the broker's settings by name.

    Raises:
        EmbeddedBrokerError: it could not be started there.
    """

    pid: Final = None

    def __init__(
        self, session: object, data: Path, listen: str, settings: Mapping[str, str]
    ) -> None:
        # A Spark Connect session has no JVM of its own: asking for it raises AttributeError.
        jvm = getattr(session, "_jvm", None)
        if jvm is None:
            raise EmbeddedBrokerUnavailable(
                "EmbeddedBroker(spark=...) needs a classic SparkSession, whose driver JVM is on "
                "this machine; this session has none (Spark Connect, or stopped): leave spark out "
                "to start the broker as a process"
            )
        _add_jar(jvm, broker_jar())
        self._handle = _start(jvm, listen, str(data), settings)
        self.address = str(self._handle.nameServer())
        self._is_closed = False
        _LOG.info("embedded broker ready address=%s in the driver's JVM", self.address)

    @property
    def is_running(self) -> bool:
        """Whether it was not closed by us; it ends with the JVM otherwise."""
        return not self._is_closed

    def stop(self) -> None:
        """Close it in order. A JVM that is gone took the broker with it."""
        from py4j.protocol import Py4JJavaError, Py4JNetworkError

        self._is_closed = True
        try:
            self._handle.close()
        except Py4JJavaError as error:
            raise _failure("the embedded broker could not be closed", error) from error
        except (Py4JNetworkError, OSError) as error:
            _LOG.debug("= the driver's JVM is gone: %s", error)

    def kill(self) -> None:
        """Impossible: it would take the driver with it."""
        raise EmbeddedBrokerUnavailable(
            "a broker inside the driver's JVM cannot be killed without the driver; use stop(), or "
            "leave spark out to have a process of its own"
        )


def _add_jar(jvm: Any, jar: Path) -> None:
    """Make our classes visible to the running driver, for which ``spark.jars`` comes too late.

    Spark's own class loader is made to grow; adding the same jar again does nothing.
    """
    growing = jvm.java.lang.Class.forName(_GROWING_LOADER)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None and not growing.isInstance(loader):
        loader = loader.getParent()
    if loader is None:
        raise EmbeddedBrokerUnavailable(
            f"the driver's JVM has no {_GROWING_LOADER} to add {jar} to; start the session with "
            f"spark.driver.extraClassPath={jar}, or leave spark out"
        )
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _start(jvm: Any, listen: str, data: str, settings: Mapping[str, str]) -> Any:
    from py4j.protocol import Py4JError, Py4JJavaError

    values = jvm.java.util.HashMap()
    for name, value in settings.items():
        values.put(name, str(value))
    try:
        return jvm.rmqordered.EmbeddedBroker.start(listen, data, values)
    except Py4JJavaError as error:
        raise _failure("the embedded broker did not start in the driver's JVM", error) from error
    except (Py4JError, TypeError) as error:
        # py4j takes an unknown class for a package, which cannot be called.
        raise EmbeddedBrokerUnavailable(
            f"the driver's JVM does not find {_CLASS} in {broker_jar()}: {error}"
        ) from error


def _failure(what: str, error: Any) -> EmbeddedBrokerError:
    cause = error.java_exception
    return EmbeddedBrokerError(what, None, [str(cause.getMessage() or cause.toString())])
