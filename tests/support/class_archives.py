"""Archives of classes that one JVM has loaded and verified, for the JVMs that load the same ones.

The tests start hundreds of JVMs that live for seconds, and loading classes is the largest part of
such a life. A JVM takes an archive only if its class path is the one of the JVM that left it, and
goes on without if it is not.
"""

import hashlib
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.jvm import find_java
from tests.support.once import made_once
from tests.support.paths import CACHE

FOLDER = CACHE / "classes"
# The option of a JVM that can be told to leave its classes.
RECORDING = "-XX:+RecordDynamicDumpInfo"


def class_archive(name: str, jars: Iterable[Path], leave: Callable[[Path], None]) -> Path:
    """Returns the archive for these jars, made if this is the first time or they have changed.

    Args:
        name: what the archive's file name begins with.
        jars: the class path.
        leave: runs a JVM with `leaving(path)` among its options until that has ended, or calls
            `leave_now` for one.
    """
    state = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in sorted(jars)]
    digest = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    archive = FOLDER / f"{name}-{digest}.jsa"

    def make() -> None:
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        leave(partial)
        # Fails if the JVM has left nothing.
        partial.rename(archive)

    return made_once(archive, FOLDER / f"{name}.lock", make)


def leaving(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that leaves its classes when it ends."""
    # Most of the log says which classes cannot be kept, and why.
    return "-Xlog:disable", f"-XX:ArchiveClassesAtExit={archive}"


def leave_now(pid: int, archive: Path) -> None:
    """Tells a running JVM, started with `RECORDING`, to leave its classes."""
    command = [find_java("jcmd"), str(pid), "VM.cds", "dynamic_dump", str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not archive.is_file():
        raise AssertionError(f"no classes were left: {done.stdout}{done.stderr}")


def taking(archive: Path) -> str:
    """The option of a JVM that takes its classes from an archive."""
    return f"-XX:SharedArchiveFile={archive}"
