"""Puts one bug into the text of a source file: found by function and expression, never by line.

Whatever does not fit exactly is an error: a bug that is planted elsewhere, or not at all, would
prove nothing. White space counts as white space, however much there is, so that a formatter that
breaks a line does no harm.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_CLOSES_A_BLOCK = (")", "}", "]")


class DoesNotApply(Exception):
    """A bug has no place, or more than one, in the sources that it was to be planted in."""


@dataclass(frozen=True)
class Span:
    """A part of a text, by character."""

    start: int
    end: int


def planted(source: str, *, language: str, function: str, expression: str, replacement: str) -> str:
    """The source with the replacement in place of the expression.

    Args:
        source: The text of a file.
        language: ``python`` or ``scala``.
        function: ``function``, ``Class.method`` or, in Scala, ``Object.method``.
        expression: What stands in that function exactly once.
        replacement: What is to stand there.

    Raises:
        DoesNotApply: the function or the expression is not there exactly once, or the result is
            no Python.
    """
    span = function_span(source, language, function)
    text = source[span.start : span.end]
    found = list(_pattern(expression).finditer(text))
    if len(found) != 1:
        raise DoesNotApply(
            f"the expression is expected once in {function}, found {len(found)} times: {expression}"
        )
    if _flat(found[0].group()) == _flat(replacement):
        raise DoesNotApply(f"the replacement in {function} is the expression itself: {expression}")
    start, end = (span.start + at for at in found[0].span())
    changed = source[:start] + replacement + source[end:]
    if language == "python":
        _ensure_python(changed, function)
    return changed


def function_span(source: str, language: str, function: str) -> Span:
    """Where a function is; raises DoesNotApply unless there is exactly one of that name."""
    *containers, name = function.split(".")
    find = {"python": _python_functions, "scala": _scala_functions}[language]
    found = list(find(source, containers, name))
    if len(found) != 1:
        raise DoesNotApply(f"one function {function} is expected, found {len(found)}")
    return found[0]


def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(re.escape(word) for word in expression.split()))


def _flat(text: str) -> str:
    return " ".join(text.split())


def _ensure_python(source: str, function: str) -> None:
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise DoesNotApply(f"with the bug, {function} is no Python: {error}") from error


def _python_functions(source: str, containers: list[str], name: str) -> Iterator[Span]:
    places: list[ast.AST] = [ast.parse(source)]
    for container in containers:
        places = [
            node
            for place in places
            for node in ast.iter_child_nodes(place)
            if isinstance(node, ast.ClassDef) and node.name == container
        ]
    starts = _line_starts(source)
    for place in places:
        for node in ast.iter_child_nodes(place):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                assert node.end_lineno is not None
                yield Span(starts[node.lineno - 1], starts[node.end_lineno])


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _scala_functions(source: str, containers: list[str], name: str) -> Iterator[Span]:
    spans = [Span(0, len(source))]
    for container in containers:
        head = re.compile(rf"^[ \w\[\]]*\b(?:class|object|trait) {re.escape(container)}\b", re.M)
        spans = [inner for span in spans for inner in _scala_blocks(source, span, head)]
    head = re.compile(rf"^ *(?:[\w\[\]]+ +)*def {re.escape(name)}\b", re.M)
    for span in spans:
        yield from _scala_blocks(source, span, head)


def _scala_blocks(source: str, within: Span, head: re.Pattern[str]) -> Iterator[Span]:
    """Blocks that begin with such a line and end where the indentation does."""
    for match in head.finditer(source, within.start, within.end):
        # A bound of a search counts as the beginning of a line; only a real one will do.
        if match.start() == 0 or source[match.start() - 1] == "\n":
            yield Span(match.start(), _end_of_block(source, match.start()))


def _end_of_block(source: str, start: int) -> int:
    lines = source[start:].splitlines(keepends=True)
    depth = _indentation(lines[0])
    end = start + len(lines[0])
    for line in lines[1:]:
        is_inside = not line.strip() or _indentation(line) > depth
        if not is_inside and not (
            _indentation(line) == depth and line.strip().startswith(_CLOSES_A_BLOCK)
        ):
            break
        end += len(line)
    return end


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
