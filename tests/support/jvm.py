"""How the tests start Java: which executable, which options, where its logs go."""

import os
import shutil
from pathlib import Path

from tests.support.maven import ToolUnavailable
from tests.support.paths import JAVA_SOURCES

# Small machines run many of these at once, most of them for seconds: no concurrent collector
# threads, and the first compiler tier only. Not for anything whose speed is told.
SMALL_JVM = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")

# RocketMQ unmaps its files through JDK internals; without these it cannot on Java 17 and later.
OPENED_INTERNALS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)


class JavaUnavailable(ToolUnavailable):
    """The JDK, or its compiler, is not installed."""


def find_java(tool: str = "java") -> str:
    """Returns the path of a JDK tool, from JAVA_HOME if it is set, else from the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(tool, path=str(Path(home, "bin"))) if home else shutil.which(tool)
    if found is None:
        reason = f"{tool} was not found in JAVA_HOME or on the PATH: a JDK (17 or later) is needed."
        raise JavaUnavailable(reason)
    return found


def rocketmq_properties(home: Path) -> tuple[str, ...]:
    """Returns properties that keep RocketMQ inside a folder and its log off standard output."""
    return (
        f"-Drocketmq.home.dir={home}",
        f"-Duser.home={home}",
        # Native libraries and self-signed certificates are unpacked there, and stay after a kill.
        f"-Djava.io.tmpdir={home}",
        f"-Drmq.logback.configurationFile={JAVA_SOURCES / 'logback.xml'}",
    )


# For one JVM more on a machine that runs several already.
SMALL_HEAP = (*SMALL_JVM, "-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")
