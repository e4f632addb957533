"""Other releases of Spark, each in a virtual environment of the project's cache folder.

PySpark is some 450 MB: it is fetched once. The environment has what the connector imports on
drivers and executors, and nothing else.
"""

import subprocess
import sys
from pathlib import Path

from tests.support.maven import ToolUnavailable
from tests.support.once import made_once
from tests.support.paths import CACHE

INSTALL_TIMEOUT_S = 900.0


def python_with_spark(release: str) -> Path:
    """Returns the Python of an environment with this release, such as ``4.2``.

    Raises:
        ToolUnavailable: It is not in the cache and cannot be installed.
    """
    home = CACHE / f"spark-{release}"
    ready = home / "ready"

    def make() -> None:
        _install(release, home)
        ready.touch()

    made_once(ready, CACHE / f"spark-{release}.lock", make)
    return home / "bin" / "python"


def _install(release: str, home: Path) -> None:
    packages = [f"pyspark=={release}.*", "pyarrow>=18", "numpy>=2.0", "msgpack>=1.0"]
    python = str(home / "bin" / "python")
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
    ]
    for command in commands:
        try:
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"pyspark {release} cannot be installed: {getattr(error, 'stderr', error)}"
            raise ToolUnavailable(reason) from error
