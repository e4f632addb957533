"""Nothing of one machine gets into the repository: no home folders, no private registries."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.paths import ROOT

# Built from pieces, so that this file does not find itself.
_FOLDERS = ("work", "home", "root", "Users", "mnt", "workspace")
MACHINE_PATH = re.compile(rf"(?<![\w.~:$)}}/-])/(?:{'|'.join(_FOLDERS)})/[\w.-]")
URL_HOST = re.compile(r"\bhttps?://([\w.-]+)")

# Everybody can reach these. A host that is not listed may be a mirror of somebody's own.
PUBLIC_HOSTS = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0"
    r"|(?:[\w-]+\.)*(?:apache\.org|github\.com|github\.io|githubusercontent\.com|python\.org"
    r"|pypi\.org|readthedocs\.io|scala-lang\.org|scala-sbt\.org|scalameta\.org|maven\.org"
    r"|keepachangelog\.com|semver\.org|w3\.org|adoptium\.net|astral\.sh|prometheus\.io"
    r"|example\.(?:com|org)))"
)


def tracked_files() -> list[Path]:
    """What is or would be committed; generated and ignored files are not."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git working tree, so nothing is tracked")
    return [
        path for name in listing.decode().split("\0") if name and (path := ROOT / name).is_file()
    ]


def leaks(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield f"{name}:{number} names a folder of one machine: {line.strip()[:100]}"
        for host in URL_HOST.findall(line):
            if not PUBLIC_HOSTS.fullmatch(host.rstrip(".")):
                yield f"{name}:{number} names the host {host}"


def text_of(path: Path) -> str:
    """The file as text; empty for binary ones."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def test_no_tracked_file_names_a_machine_s_folder_or_a_private_host() -> None:
    files = tracked_files()
    assert len(files) > 50, "the check must look at the real files"
    found = [leak for path in files for leak in leaks(str(path.relative_to(ROOT)), text_of(path))]
    assert found == []


def test_leaks_are_found() -> None:
    path = "/".join(["", "home", "somebody", "project"])
    url = "https:" + "//registry.internal.example/simple"
    assert len(list(leaks("a", f"cd {path}"))) == 1
    assert len(list(leaks("a", f'data = "{path}"'))) == 1
    assert len(list(leaks("a", f"--index-url {url}"))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "see https://github.com/apache/rocketmq and http://maven.apache.org.",
        "GET http://127.0.0.1:9876/metrics",
        "python/rmq_ordered/home/x and ${DIR}/work/y and ../root/z",
        "checkpoints go to /tmp/demo",
    ],
)
def test_what_belongs_to_everybody_is_no_leak(line: str) -> None:
    assert list(leaks("a", line)) == []
