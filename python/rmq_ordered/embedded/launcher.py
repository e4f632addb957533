"""The command line that starts a broker's JVM: which java, which flags, which class path."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from rmq_ordered.embedded.classpath import class_path
from rmq_ordered.errors import EmbeddedBrokerUnavailable

_MAIN_CLASS: Final = "rmqordered.Main"
# Spark 4 needs 17 as well, so whoever runs Spark has it.
_OLDEST_JAVA: Final = 17
_VERSION_TIMEOUT_S: Final = 20
# Environment variable: further flags for the broker's JVM, which win over those below.
JAVA_OPTIONS: Final = "RMQ_ORDERED_JAVA_OPTIONS"

_JVM_FLAGS: Final = (
    # A laptop's broker must not grow with the machine's memory; messages live in the page cache.
    # What it needs for a while (slow readers, large frames) is between these two.
    "-Xms128m",
    "-Xmx512m",
    # Nearly everything dies young: a third of this is enough, but a send then waits for the
    # collector more often (measured: 6 % of Java's batch sends).
    "-Xmn96m",
    "-XX:MaxDirectMemorySize=512m",
    # Small heap, few threads: the serial collector starts fastest and needs the least memory.
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    # A broker that lost a thread to lack of memory answers some clients and not others: better
    # none.
    "-XX:+ExitOnOutOfMemoryError",
    # Netty reaches into both for direct buffers.
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    # Java 17 takes the encoding of text from the locale.
    "-Dfile.encoding=UTF-8",
    # With the scheme, so that a file of this name in the working folder is not taken instead.
    "-Dlog4j2.configurationFile=classpath:rmqordered/log4j2.properties",
    # Log4j's own hook would silence the log before the broker's hook has closed the store.
    "-Dlog4j2.shutdownHookEnabled=false",
)


def broker_command(arguments: Sequence[str]) -> list[str]:
    """The whole command for a broker with these arguments of its own.

    Raises:
        EmbeddedBrokerUnavailable: Java, PySpark or our jar is missing or too old, or the further
            flags cannot be read.
    """
    java = find_java()
    jars = os.pathsep.join(str(jar) for jar in class_path())
    # Last: of two flags that contradict each other the JVM takes the later one.
    return [str(java), *_JVM_FLAGS, *_further_flags(), "-cp", jars, _MAIN_CLASS, *arguments]


def _further_flags() -> list[str]:
    given = os.environ.get(JAVA_OPTIONS, "")
    try:
        return shlex.split(given)
    except ValueError as error:
        raise EmbeddedBrokerUnavailable(
            f"{JAVA_OPTIONS} is {given}, which cannot be split into flags ({error}); quote it as "
            "in a shell"
        ) from error


def find_java() -> Path:
    """A java that is new enough: from JAVA_HOME if that is set, else from the PATH.

    Raises:
        EmbeddedBrokerUnavailable: there is none, or it is too old.
    """
    java = _locate_java()
    version = _java_version(java)
    if version is not None and version < _OLDEST_JAVA:
        raise EmbeddedBrokerUnavailable(
            f"the broker needs Java {_OLDEST_JAVA} or later, found Java {version} at {java}; "
            "install a newer one or point JAVA_HOME at it"
        )
    return java


def _locate_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        found = shutil.which("java", path=str(Path(home) / "bin"))
        if found is None:
            raise EmbeddedBrokerUnavailable(
                f"JAVA_HOME is {home}, but there is no executable bin/java in it; correct it, or "
                "unset it to use the java on the PATH"
            )
        return Path(found).absolute()
    found = shutil.which("java")
    if found is None:
        raise EmbeddedBrokerUnavailable(
            f"no java was found on the PATH and JAVA_HOME is not set; the broker needs Java "
            f"{_OLDEST_JAVA} or later"
        )
    return Path(found).absolute()


@cache
def _java_version(java: Path) -> int | None:
    """The feature release, or None if it cannot be told: then the JVM itself will complain."""
    release = java.resolve().parents[1] / "release"
    if release.is_file():
        # Every JDK has this file; reading it saves the start of a JVM.
        return _feature(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"))
    try:
        answer = subprocess.run(  # noqa: S603 - the java that is about to be run anyway
            [java, "-version"], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _feature(r'version "([^"]+)"', answer.stderr.decode(errors="replace"))


def _feature(pattern: str, text: str) -> int | None:
    """17 of "17.0.15", 21 of "21-ea", 8 of "1.8.0_292"."""
    found = re.search(pattern, text, re.MULTILINE)
    numbers = re.findall(r"\d+", found[1]) if found else []
    if numbers[:1] == ["1"]:
        numbers = numbers[1:]
    return int(numbers[0]) if numbers else None
