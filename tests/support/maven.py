"""Fetches Apache RocketMQ once, by Maven, into the project's cache folder.

The folder appears in one step (copied beside, then renamed), so a run that dies half-way leaves
nothing that a later one would trust; a lock file makes concurrent runs wait for one another instead
of copying twice.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.once import made_once
from tests.support.paths import CACHE

APACHE = "org.apache.rocketmq"
FETCH_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Release:
    """One release of RocketMQ: the artifacts that are fetched, and where they are kept.

    Args:
        version: Of RocketMQ.
        folder: Its place in the cache.
        artifacts: Maven coordinates ``group:artifact:version``, with all they depend on.
    """

    version: str
    folder: str
    artifacts: tuple[str, ...]


# Broker, tools and clients of the release that is the referee.
ROCKETMQ_5 = Release(
    "5.5.0",
    "rocketmq-5.5.0",
    tuple(f"{APACHE}:rocketmq-{part}:5.5.0" for part in ("broker", "namesrv", "tools")),
)
ROCKETMQ_VERSION = ROCKETMQ_5.version
# Clients of the generation before, of which many are still in service. Fastjson2, which comes with
# the newer release, is how the programs print.
ROCKETMQ_4 = Release(
    "4.9.8",
    "rocketmq-client-4.9.8",
    (f"{APACHE}:rocketmq-client:4.9.8", "com.alibaba.fastjson2:fastjson2:2.0.59"),
)


class ToolUnavailable(Exception):
    """Something outside Python that the real-RocketMQ tests need is missing on this machine."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class MavenUnavailable(ToolUnavailable):
    """Maven is not installed, or could not reach a repository."""


def rocketmq_jars(release: Release = ROCKETMQ_5) -> Path:
    """Returns the folder with a release's jars, fetching them if this is the first time.

    Raises:
        MavenUnavailable: They are not in the cache and cannot be fetched.
    """
    home = CACHE / release.folder
    jars = home / "lib"
    return made_once(jars, home / "lock", lambda: _fetch(release, jars))


def _fetch(release: Release, jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        reason = "Maven (mvn) is not on the PATH, so Apache RocketMQ cannot be fetched."
        raise MavenUnavailable(reason)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=jars.parent) as partial:
        pom = Path(partial, "pom.xml")
        pom.write_text(_pom(release), encoding="utf-8")
        copied = Path(partial, "lib")
        _copy_dependencies(maven, pom, copied, release)
        copied.rename(jars)


def _copy_dependencies(maven: str, pom: Path, target: Path, release: Release) -> None:
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
        raise MavenUnavailable(_explain(release, done.stdout + done.stderr))
    _, artifact, version = release.artifacts[0].split(":")
    if not (target / f"{artifact}-{version}.jar").is_file():
        reason = f"Maven succeeded but did not copy {artifact} {version}."
        raise MavenUnavailable(reason)


def _explain(release: Release, output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    detail = errors[0].removeprefix("[ERROR]").strip() if errors else "it gave no reason"
    return f"Maven could not fetch Apache RocketMQ {release.version}: {detail[:300].rstrip('.')}."


def _pom(release: Release) -> str:
    dependencies = "\n".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in (name.split(":") for name in release.artifacts)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>rmqordered</groupId><artifactId>fetch</artifactId><version>1</version>"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )
