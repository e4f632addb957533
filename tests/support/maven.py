"""Fetches Apache RocketMQ once, by Maven, into the project's cache folder.

The folder appears in one step (copied beside, then renamed), so a run that dies half-way leaves
nothing that a later one would trust; a lock file makes concurrent runs wait for one another instead
of copying twice.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.paths import CACHE

ROCKETMQ_VERSION = "5.5.0"
ROCKETMQ_ARTIFACTS = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-tools")
FETCH_TIMEOUT_S = 900.0


class ToolUnavailable(Exception):
    """Something outside Python that the real-RocketMQ tests need is missing on this machine."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class MavenUnavailable(ToolUnavailable):
    """Maven is not installed, or could not reach a repository."""


def rocketmq_jars() -> Path:
    """Returns the folder with RocketMQ's jars, fetching them if this is the first time.

    Raises:
        MavenUnavailable: They are not in the cache and cannot be fetched.
    """
    home = CACHE / f"rocketmq-{ROCKETMQ_VERSION}"
    jars = home / "lib"
    if not jars.is_dir():
        with locked(home / "lock"):
            if not jars.is_dir():
                _fetch(jars)
    return jars


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Holds a lock file, across processes; the kernel frees it when the holder dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        reason = "Maven (mvn) is not on the PATH, so Apache RocketMQ cannot be fetched."
        raise MavenUnavailable(reason)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=jars.parent) as partial:
        pom = Path(partial, "pom.xml")
        pom.write_text(_pom(), encoding="utf-8")
        copied = Path(partial, "lib")
        _copy_dependencies(maven, pom, copied)
        copied.rename(jars)


def _copy_dependencies(maven: str, pom: Path, target: Path) -> None:
    command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(pom)]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(
            [*command, *goal],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
            env={**os.environ, "MAVEN_OPTS": os.environ.get("MAVEN_OPTS", "-Xmx256m")},
        )
    except subprocess.TimeoutExpired:
        reason = f"Maven did not fetch Apache RocketMQ within {FETCH_TIMEOUT_S:g} s."
        raise MavenUnavailable(reason) from None
    if done.returncode != 0:
        raise MavenUnavailable(_explain(done.stdout + done.stderr))
    if not (target / f"rocketmq-broker-{ROCKETMQ_VERSION}.jar").is_file():
        reason = f"Maven succeeded but did not copy rocketmq-broker {ROCKETMQ_VERSION}."
        raise MavenUnavailable(reason)


def _explain(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    detail = errors[0].removeprefix("[ERROR]").strip() if errors else "it gave no reason"
    return f"Maven could not fetch Apache RocketMQ {ROCKETMQ_VERSION}: {detail[:300].rstrip('.')}."


def _pom() -> str:
    dependencies = "\n".join(
        f"<dependency><groupId>org.apache.rocketmq</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{ROCKETMQ_VERSION}</version></dependency>"
        for artifact in ROCKETMQ_ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>rmqordered</groupId><artifactId>fetch</artifactId><version>1</version>"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )
