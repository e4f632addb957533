"""What differs between Spark versions, and which option keys are Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# A sink is also handed the stream's own settings, and load(path) adds a path.
_SPARK_KEYS: Final = frozenset({"checkpointlocation", "queryname", "path"})
_OLDEST: Final = (4, 2)


def connector_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options without Spark's own."""
    return {name: value for name, value in options.items() if name.lower() not in _SPARK_KEYS}


def ensure_supported(version: str) -> None:
    """Raise ImportError on a Spark whose Python sources lack admission control."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < _OLDEST:
        raise ImportError(
            f"rmq-ordered needs Spark {_OLDEST[0]}.{_OLDEST[1]} or newer, found {version}; "
            "install pyspark>=4.2"
        )
