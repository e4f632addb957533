"""Generated pages are current."""

from pathlib import Path

from rmq_ordered.options import options_markdown

DOCS = Path(__file__).parents[2] / "docs"


def test_the_options_page_is_generated_from_the_options() -> None:
    assert (DOCS / "options.md").read_text() == options_markdown(), "run make docs"
