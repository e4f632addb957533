"""The size budget: no long files, no long functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.paths import ROOT

MAX_FUNCTION_LINES = 60
# Folder, kind of file, longest file.
BUDGETS = [
    ("python", "*.py", 500),
    ("examples", "*.py", 500),
    ("benchmarks", "*.py", 500),
    ("scripts", "*.py", 500),
    ("tests", "*.py", 600),
    ("src/main/scala", "*.scala", 350),
    ("src/test/scala", "*.scala", 600),
]


def sources(folder: str, pattern: str) -> list[Path]:
    return sorted((ROOT / folder).rglob(pattern))


def long_functions(name: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{name}:{node.lineno} {node.name} has {lines} lines"


@pytest.mark.parametrize(("folder", "pattern", "limit"), BUDGETS)
def test_no_file_is_longer_than_its_budget(folder: str, pattern: str, limit: int) -> None:
    counted = {path: len(path.read_text().splitlines()) for path in sources(folder, pattern)}
    too_long = [
        f"{path.relative_to(ROOT)} has {lines} lines, allowed are {limit}"
        for path, lines in counted.items()
        if lines > limit
    ]
    assert too_long == []


@pytest.mark.parametrize("folder", sorted({f for f, pattern, _ in BUDGETS if pattern == "*.py"}))
def test_no_python_function_is_longer_than_its_budget(folder: str) -> None:
    too_long = [
        problem
        for path in sources(folder, "*.py")
        for problem in long_functions(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert too_long == []


def test_a_long_function_is_found() -> None:
    body = "\n".join(["    x = 1"] * MAX_FUNCTION_LINES)
    assert list(long_functions("a.py", f"def short():\n{body[:-10]}\n")) == []
    assert list(long_functions("a.py", f"class C:\n def long(self):\n{body}\n")) == [
        "a.py:2 long has 61 lines"
    ]
