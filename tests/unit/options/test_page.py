"""The page of all options."""

import re

import pytest

from rmq_ordered.options import SINK_OPTIONS, SOURCE_OPTIONS, Option, options_markdown


@pytest.mark.parametrize("option", [*SOURCE_OPTIONS, *SINK_OPTIONS], ids=lambda o: o.name)
def test_the_page_has_a_row_for_every_option(option: Option) -> None:
    rows = [row for row in options_markdown().splitlines() if f"| `{option.name}` |" in row]
    assert rows
    default = "required" if option.is_required else (option.default or "")
    assert all(default in row for row in rows)


def test_the_page_is_a_table_with_four_columns_throughout() -> None:
    page = options_markdown()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 4 + len(SOURCE_OPTIONS) + len(SINK_OPTIONS)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert page.index("## Source") < page.index("## Sink")
    assert page.endswith("|\n")
