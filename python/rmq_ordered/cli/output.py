"""How results and complaints look. Results go to standard output, everything else to the other."""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Rich takes a pipe for 80 columns and would fold long client ids into several lines.
_PIPE_WIDTH: Final = 400
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))} | {
    ord("\t"): "\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
}

# What JSON leaves as it is and a terminal may obey.
_JSON_CONTROL: Final = {code: f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0))}


class PrintableFormatter(logging.Formatter):
    """Log lines that cannot steer a terminal, whatever a peer has said; traces keep their lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        safe = copy.copy(record)
        safe.msg, safe.args, safe.exc_text = printable(record.getMessage()), (), None
        return super().format(safe)

    def formatException(self, *args: Any) -> str:  # noqa: N802 - logging's own name
        """A trace as text."""
        lines = super().formatException(*args).split("\n")
        return "\n".join(printable(line) for line in lines)


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on one line, in UTF-8 whatever the locale says; it steers no terminal."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    print_line(text.translate(_JSON_CONTROL))


def print_line(text: str) -> None:
    """One line of results, at once: whoever reads a pipe shall not wait for the next."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under headings; numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        is_numeric = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(column, justify="right" if is_numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_cell(value)) for value in row))
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(width=width, highlight=False).print(table)


def note(sentence: str) -> None:
    """Something to know beside the results."""
    print(printable(sentence), file=sys.stderr, flush=True)


def fail(sentence: str) -> NoReturn:
    """End the command with one sentence and exit code 1."""
    note(f"error: {sentence}")
    raise typer.Exit(1)


def printable(text: str) -> str:
    """Text on one line that cannot steer a terminal: control characters but tabs are escaped."""
    return text.translate(_CONTROL)


def utc(timestamp_ms: int) -> str | None:
    """A moment in ISO 8601, or None for "never"."""
    if timestamp_ms <= 0:
        return None
    return iso(
        datetime.fromtimestamp(timestamp_ms // 1000, UTC)
        + timedelta(milliseconds=timestamp_ms % 1000)
    )


def iso(moment: datetime) -> str:
    """A moment of UTC in ISO 8601, to the millisecond."""
    return f"{moment.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"


def _cell(value: object) -> str:
    return "-" if value is None else printable(str(value))
