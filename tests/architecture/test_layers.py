"""Imports in the broker point down only; and the check that says so can fail."""

import pytest
from tests.architecture.scala_rules import ALLOWED, violations
from tests.support.paths import ROOT

SOURCES = ROOT / "src" / "main" / "scala" / "rmqordered"


def test_every_scala_source_keeps_to_the_layers() -> None:
    files = sorted(SOURCES.rglob("*.scala"))
    assert len(files) > 20, "the check must look at the real sources"
    found = [
        problem
        for path in files
        for problem in violations(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert found == []


def test_the_package_of_a_source_is_the_folder_it_lies_in() -> None:
    for path in SOURCES.rglob("*.scala"):
        folder = path.parent.relative_to(SOURCES.parent).as_posix().replace("/", ".")
        assert f"package {folder}\n" in path.read_text(), path


def test_the_table_has_no_cycle() -> None:
    ready: set[str] = set()
    while len(ready) < len(ALLOWED):
        free = {name for name, below in ALLOWED.items() if below <= ready} - ready
        assert free, f"a cycle among {set(ALLOWED) - ready}"
        ready |= free


GOOD = """package rmqordered.store

import java.nio.channels.FileChannel
import rmqordered.model.{HostAddress => Host, MessageQueue}
import rmqordered.protocol.StoredRecord

/** Never rmqordered.handler, io.netty or System.nanoTime. */
object Sample { val text = "import rmqordered.net._"; val quote = '"' } // rmqordered.net
"""


def test_a_source_that_keeps_the_rules_has_no_violations() -> None:
    assert violations("Sample.scala", GOOD) == []


def test_the_root_may_import_everything() -> None:
    text = "package rmqordered\nimport rmqordered.net.Server\nimport rmqordered.handler._\n"
    assert violations("Main.scala", text) == []


@pytest.mark.parametrize(
    ("package", "line", "problem"),
    [
        ("store", "import rmqordered.handler.Router", "not handler"),
        ("store", "import rmqordered.{model, net}", "not net"),
        ("store", "import rmqordered.{lease => l}", "not lease"),
        ("store", "import rmqordered._", "not everything"),
        ("store", "  import rmqordered.pop.PopBuffer", "not pop"),
        ("store", "val x = rmqordered.offset.Offsets.empty", "not offset"),
        ("util", "import rmqordered.model.MessageQueue", "may import nothing of ours"),
        ("group", "import rmqordered.store.MessageStore", "not store"),
        ("handler", "import rmqordered.net.Server", "not net"),
        ("handler", "import io.netty.buffer.ByteBuf", "only package net may use io.netty"),
        ("net", "import java.nio.channels.FileChannel", "only package store"),
        ("lease", "val now = System.currentTimeMillis()", "only package util"),
        ("lease", "val now = System.nanoTime", "only package util"),
        ("config", 'val home = System.getenv("HOME")', "no package may use System.getenv"),
        ("surprise", "", "package rmqordered.surprise is not in the table of layers"),
        ("store.deep", "", "package rmqordered.store.deep is not in the table of layers"),
        ("store", "package inner", "should have one package clause"),
    ],
)
def test_a_bad_sample_is_found(package: str, line: str, problem: str) -> None:
    (found,) = violations("Bad.scala", f"package rmqordered.{package}\n\n{line}\n")
    assert found.startswith("Bad.scala: ")
    assert problem in found


def test_a_source_without_a_package_is_found() -> None:
    assert violations("Bad.scala", "object Main") != []
