"""What an option is, how a table of them is parsed, and the page that documents it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rmq_ordered.errors import OptionError

_NOT_SHOWN: Final = "a value that is not shown"


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table. ``default`` None with ``is_required`` False means "not set".

    The value of a secret option appears in no error.
    """

    name: str
    doc: str
    expected: str
    parse: Callable[[str], Any]
    default: str | None = None
    is_required: bool = False
    is_secret: bool = False


# Options other connectors have and that would break order here: refused with the reason.
_ONE_TASK: Final = "a queue is read by one task so that its order is kept; it is never split"
_REFUSED: Final = {
    "minpartitions": _ONE_TASK,
    "maxpartitions": _ONE_TASK,
    "numpartitions": _ONE_TASK,
    "maxrecordsperpartition": _ONE_TASK,
}


def parse_table(table: Sequence[Option], options: Mapping[str, str]) -> dict[str, Any]:
    """Check each option by itself; raises OptionError naming option, found and expected."""
    given = {name.lower(): value for name, value in options.items()}
    _ensure_known(table, options)
    return {option.name: _parse_one(option, given.get(option.name.lower())) for option in table}


def explicit_names(table: Sequence[Option], options: Mapping[str, str]) -> frozenset[str]:
    """The names, as documented, of the options that were given."""
    given = {name.lower() for name in options}
    return frozenset(option.name for option in table if option.name.lower() in given)


def _parse_one(option: Option, text: str | None) -> Any:
    if text is None:
        if option.is_required:
            raise OptionError(option.name, None, f"{option.expected}; it must be set")
        text = option.default
    if text is None:
        return None
    try:
        return option.parse(text)
    except (ValueError, TypeError, KeyError):
        found = _NOT_SHOWN if option.is_secret else text
        raise OptionError(option.name, found, option.expected) from None


def _ensure_known(table: Sequence[Option], names: Iterable[str]) -> None:
    known = {option.name.lower(): option.name for option in table}
    for name in names:
        lowered = name.lower()
        if lowered in known:
            continue
        if lowered in _REFUSED:
            raise OptionError(name, None, f"this option not to be set: {_REFUSED[lowered]}")
        nearest = difflib.get_close_matches(lowered, known, n=1, cutoff=0.6)
        hint = (
            f"did you mean '{known[nearest[0]]}'?"
            if nearest
            else f"known are {', '.join(known.values())}"
        )
        raise OptionError(
            name, None, f"an option of rmq-ordered, but there is none of this name; {hint}"
        )


def markdown_section(title: str, table: Sequence[Option]) -> list[str]:
    """The lines of one role's table."""
    head = ["", f"## {title}", "", "| option | default | value | meaning |", "|---|---|---|---|"]
    return head + [_markdown_row(option) for option in table]


def _markdown_row(option: Option) -> str:
    default = (
        "required" if option.is_required else (f"`{option.default}`" if option.default else "")
    )
    expected = option.expected.replace("|", "\\|")
    doc = option.doc.replace("|", "\\|")
    return f"| `{option.name}` | {default} | {expected} | {doc} |"
