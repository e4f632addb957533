"""The reference page of all options."""

from __future__ import annotations

from rmq_ordered.options.sink import SINK_OPTIONS
from rmq_ordered.options.source_table import SOURCE_OPTIONS
from rmq_ordered.options.table import markdown_section


def options_markdown() -> str:
    """The page, ready to be written to ``docs/options.md``."""
    lines = [
        "# Options",
        "",
        "Generated from `rmq_ordered/options` by `make docs`; do not edit.",
        "Names are case-insensitive; unknown ones are errors that suggest the nearest.",
    ]
    lines += markdown_section("Source", SOURCE_OPTIONS)
    lines += markdown_section("Sink", SINK_OPTIONS)
    return "\n".join(lines) + "\n"
