"""Tables of options: unknown names, refused names, secrets, and the page's rows."""

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SOURCE_OPTIONS, Option
from rmq_ordered.options.table import explicit_names, markdown_section, parse_table

TABLE = (
    Option("size", "How large.", "a|number", int, default="5"),
    Option("name", "Who.", "a name", str, is_required=True),
    Option("pin", "Secret.", "four digits", int, is_secret=True),
)


def test_what_is_not_given_has_its_default() -> None:
    assert parse_table(TABLE, {"NAME": "me"}) == {"size": 5, "name": "me", "pin": None}


def test_what_must_be_set_is_missed() -> None:
    with pytest.raises(OptionError, match=r"'name'.*it must be set"):
        parse_table(TABLE, {})


def test_the_value_of_a_secret_is_in_no_error() -> None:
    with pytest.raises(OptionError) as caught:
        parse_table(TABLE, {"name": "me", "pin": "abcd"})
    assert "abcd" not in str(caught.value)
    assert "abcd" not in repr(caught.value.args)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("nameserver1", "nameServer"),
        ("startingoffset", "startingOffsets"),
        ("subcribe", "subscribe"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("lease_mode", "leaseMode"),
    ],
)
def test_an_unknown_option_suggests_the_nearest(given: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"did you mean '{nearest}'") as caught:
        parse_table(SOURCE_OPTIONS, {given: "x"})
    assert caught.value.option == given


def test_an_unknown_option_that_is_near_to_none_lists_what_is_known() -> None:
    with pytest.raises(OptionError, match=r"known are nameServer, .*, requestTimeout"):
        parse_table(SOURCE_OPTIONS, {"zzz": "1"})


@pytest.mark.parametrize(
    "name", ["minPartitions", "minpartitions", "numPartitions", "maxRecordsPerPartition"]
)
def test_options_that_would_break_order_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(OptionError, match="a queue is read by one task so that its order is kept"):
        parse_table(SOURCE_OPTIONS, {name: "8"})


def test_the_given_options_are_known_by_their_documented_names() -> None:
    assert explicit_names(TABLE, {"SIZE": "1"}) == {"size"}


def test_a_section_has_a_row_of_four_columns_for_every_option() -> None:
    lines = markdown_section("Things", TABLE)
    assert lines[1] == "## Things"
    assert lines[-3:] == [
        "| `size` | `5` | a\\|number | How large. |",
        "| `name` | required | a name | Who. |",
        "| `pin` |  | four digits | Secret. |",
    ]
