"""The installed Spark, made to start quickly: for tests, each of which starts it anew.

Spark's Python processes import ``pyspark`` from a zip of sources, and each of them, several for
every query, compiles what it imports: more than a second on a quiet machine. So there is a folder
with links to what the installed Spark has, but for that zip, which has the compiled code as well.

Its JVMs load and verify some twenty thousand classes. So one JVM leaves its classes in an archive,
and the others map it into their memory.
"""

import compileall
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode

import pyspark
from tests.support.class_archives import class_archive, leaving, taking
from tests.support.jvm import SMALL_JVM
from tests.support.once import made_once
from tests.support.paths import CACHE, ROOT

INSTALLED = Path(pyspark.__file__).resolve().parent
FOLDERS = ("bin", "jars", "sbin")
SHORT_LIVED = " ".join(SMALL_JVM)
REHEARSAL = ROOT / "tests" / "support" / "spark_rehearsal.py"


def spark_environment() -> dict[str, str]:
    """What a process needs in its environment to start that Spark, quickly."""
    return {"SPARK_HOME": str(spark_home()), **driver_options(quick_start())}


def driver_options(options: str) -> dict[str, str]:
    """What a process needs in its environment to start its driver's JVM with these options."""
    return {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options {shlex.quote(options)} pyspark-shell"}


@cache
def quick_start() -> str:
    """Options for the JVMs of that Spark."""
    archive = class_archive("spark", (spark_home() / "jars").iterdir(), _rehearse)
    return f"{SHORT_LIVED} {taking(archive)}"


def _rehearse(archive: Path) -> None:
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        **driver_options(" ".join([SHORT_LIVED, *leaving(archive)])),
    }
    command = [sys.executable, str(REHEARSAL)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"Spark's rehearsal failed: {done.stderr[-4000:]}")


@cache
def spark_home() -> Path:
    """The folder for SPARK_HOME, made if this is the first time."""
    # Links to one environment are of no use to another, nor to the same one after it was moved.
    where = hashlib.sha256(str(INSTALLED).encode()).hexdigest()[:8]
    name = f"spark-home-{pyspark.__version__}-{sys.implementation.cache_tag}-{where}"
    home, partial = CACHE / name, CACHE / f"{name}.partial"

    def make() -> None:
        shutil.rmtree(partial, ignore_errors=True)
        _make(partial)
        partial.rename(home)

    return made_once(home, CACHE / f"{name}.lock", make)


def _make(home: Path) -> None:
    libraries = home / "python" / "lib"
    libraries.mkdir(parents=True)
    for folder in FOLDERS:
        (home / folder).symlink_to(INSTALLED / folder)
    for archive in (INSTALLED / "python" / "lib").glob("*.zip"):
        with tempfile.TemporaryDirectory() as code:
            _compile(archive, Path(code), libraries / archive.name)


def _compile(archive: Path, code: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as sources:
        sources.extractall(code)
    # By hash and unchecked: in a zip there are no times worth comparing.
    mode = PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(code, maxlevels=99, quiet=2, legacy=True, invalidation_mode=mode)
    with zipfile.ZipFile(target, "w") as compiled:
        for path in sorted(code.rglob("*")):
            compiled.write(path, path.relative_to(code))
