"""Which jars the broker's JVM needs, and where they are.

Our own jar holds this project's classes only; everything else comes from the ``jars`` folder of
PySpark. That folder is found without importing pyspark, which costs most of a second and is no
business of this layer.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rmq_ordered.errors import EmbeddedBrokerUnavailable

BROKER_JAR: Final = Path(__file__).parents[1] / "jars" / "rmq-ordered-broker.jar"

# What build.sbt names as Provided, with what that needs itself. All of PySpark's 250 jars would do
# as well, but cost 300 ms and 35 MB at every start.
_SPARK_LIBRARIES: Final = (
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "netty-buffer",
    "netty-codec-base",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-unix-common",
    "scala-library",
    "slf4j-api",
)


def broker_jar() -> Path:
    """Our own jar.

    Raises:
        EmbeddedBrokerUnavailable: it was not built.
    """
    if not BROKER_JAR.is_file():
        raise EmbeddedBrokerUnavailable(
            f"the broker's jar is missing: expected {BROKER_JAR}; in a source tree run `make jar`, "
            "otherwise install the rmq-ordered wheel again"
        )
    return BROKER_JAR


def class_path() -> list[Path]:
    """Our jar and the libraries under it, and nothing else of Spark.

    Raises:
        EmbeddedBrokerUnavailable: a jar is missing.
    """
    folder = _spark_jars()
    return [broker_jar(), *(_library(folder, name) for name in _SPARK_LIBRARIES)]


def _spark_jars() -> Path:
    for folder in _candidates():
        if folder.is_dir():
            return folder
    raise EmbeddedBrokerUnavailable(
        "the broker runs on the jars that PySpark ships, and no PySpark was found: install it "
        "(pip install 'pyspark>=4.2,<4.4') in this Python, or set SPARK_HOME"
    )


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is not None:
        yield from (Path(place) / "jars" for place in spec.submodule_search_locations or ())
    home = os.environ.get("SPARK_HOME")
    if home:
        yield Path(home) / "jars"


def _library(folder: Path, name: str) -> Path:
    # A digit after the dash: netty-codec-base is not a version of netty-codec.
    found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
    if not found:
        raise EmbeddedBrokerUnavailable(
            f"expected {name} among the jars of PySpark, found none in {folder}; "
            "the broker needs PySpark 4.2 or 4.3"
        )
    return found[-1]
