import json
import logging
import sys

import pytest
from tests.support.promises import proves

from rmq_ordered.cli.output import PrintableFormatter, print_json, print_table, printable, utc


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, None),
        (-1, None),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20.000Z"),
        (1_700_000_000_999, "2023-11-14T22:13:20.999Z"),
    ],
)
def test_moments_are_exact_to_the_millisecond(timestamp_ms: int, text: str | None) -> None:
    assert utc(timestamp_ms) == text


def test_control_characters_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31m\nb\r\tc\x9b\x7f") == "a\\x1b[31m\\nb\\r\tc\\x9b\\x7f"


@proves("log-is-text")
def test_json_steers_no_terminal_and_stays_the_same(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    print_json({"key": "a\x1b[31m\x7f\x9b31m"})
    line = capfdbinary.readouterr().out
    assert line == b'{"key":"a\\u001b[31m\\u007f\\u009b31m"}\n'
    assert json.loads(line) == {"key": "a\x1b[31m\x7f\x9b31m"}


@proves("log-is-text")
def test_log_lines_steer_no_terminal_but_traces_keep_their_lines() -> None:
    def broken() -> None:
        raise ValueError("a\x1b[31m\x9b")

    try:
        broken()
    except ValueError:
        record = logging.LogRecord(
            "x", logging.DEBUG, __file__, 1, "said %s", ("b\x1b\nforged",), sys.exc_info()
        )
    text = PrintableFormatter("%(message)s").format(record)
    lines = text.split("\n")
    assert lines[0] == "said b\\x1b\\nforged"
    assert lines[-1] == "ValueError: a\\x1b[31m\\x9b"
    assert len(lines) > 3


def test_json_is_one_line_of_utf_8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({"key": "größe\n"})
    line = capfdbinary.readouterr().out
    assert line == '{"key":"größe\\n"}\n'.encode()
    assert json.loads(line) == {"key": "größe\n"}


def test_a_table_in_a_pipe_keeps_each_row_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    name = "x" * 200
    print_table(("name", "count"), [(name, 1), ("[bold]markup[/bold]", 20)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].split() == ["name", "count"]
    assert lines[2].split() == [name, "1"]
    assert lines[3].split() == ["[bold]markup[/bold]", "20"]


def test_what_is_unknown_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("owner",), [(None,)])
    assert capsys.readouterr().out.split()[-1] == "-"
