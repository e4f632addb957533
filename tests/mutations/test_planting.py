"""What is planted is planted in one place, or not at all."""

import textwrap
from collections import Counter

import pytest
from tests.mutations.bugs import AREAS, BUGS, Bug
from tests.mutations.planting import DoesNotApply, function_span, planted
from tests.support.paths import ROOT

PYTHON = textwrap.dedent(
    '''\
    def area(a, b):
        return a * b


    class Square:
        @property
        def area(self):
            """Twice the same."""
            return (
                self.side
                * self.side
            )

        def double(self):
            return Square(2 * self.side) + 2 * self.side
    '''
)

SCALA = textwrap.dedent(
    """\
    package shapes

    final case class Square(side: Int) {
      def area: Int = side * side

      private[shapes] def grown(
          by: Int
      ): Square = {
        val area = side + by

        Square(area)
      }

      /** Not of this one. */
      def less: Int = side - 1
    }

    object Square {
      def unit: Square = Square(1)
    }
    """
)


def plant(source: str, language: str, function: str, expression: str, replacement: str) -> str:
    return planted(
        source,
        language=language,
        function=function,
        expression=expression,
        replacement=replacement,
    )


def test_a_bug_is_planted_in_the_function_that_is_named_and_nowhere_else() -> None:
    changed = plant(PYTHON, "python", "area", "a * b", "a + b")
    assert changed == PYTHON.replace("a * b", "a + b")


def test_a_method_is_another_function_than_one_of_its_name_outside() -> None:
    changed = plant(PYTHON, "python", "Square.area", "self.side * self.side", "self.side")
    assert "return a * b" in changed
    assert "* self.side\n        )" not in changed


def test_an_expression_is_found_however_its_lines_are_broken() -> None:
    changed = plant(SCALA, "scala", "Square.grown", "def grown( by: Int )", "def grown(by: Int)")
    assert "def grown(by: Int): Square" in changed


def test_a_scala_function_ends_where_its_indentation_does() -> None:
    span = function_span(SCALA, "scala", "Square.grown")
    text = SCALA[span.start : span.end]
    assert text.startswith("  private[shapes] def grown(")
    assert text.rstrip().endswith("Square(area)\n  }")


def test_class_and_companion_are_both_looked_into() -> None:
    assert "def unit: Square = Square(2)" in plant(
        SCALA, "scala", "Square.unit", "Square(1)", "Square(2)"
    )


@pytest.mark.parametrize(
    ("source", "language", "function", "expression", "told"),
    [
        (PYTHON, "python", "volume", "a * b", "one function volume is expected, found 0"),
        (PYTHON, "python", "Circle.area", "a * b", "one function Circle.area is expected, found 0"),
        (PYTHON + PYTHON, "python", "area", "a * b", "one function area is expected, found 2"),
        (PYTHON, "python", "area", "a / b", "expected once in area, found 0 times: a / b"),
        (PYTHON, "python", "Square.double", "2 * self.side", "found 2 times"),
        (SCALA, "scala", "Square.volume", "side", "one function Square.volume is expected"),
        (SCALA, "scala", "Circle.area", "side", "one function Circle.area is expected, found 0"),
        (SCALA, "scala", "Square.area", "side", "found 2 times"),
        (SCALA, "scala", "Square.less", "side + 1", "found 0 times"),
    ],
)
def test_what_does_not_fit_exactly_is_not_planted(
    source: str, language: str, function: str, expression: str, told: str
) -> None:
    with pytest.raises(DoesNotApply) as error:
        plant(source, language, function, expression, "nothing")
    assert told in str(error.value)


def test_a_bug_that_changes_nothing_is_none() -> None:
    with pytest.raises(DoesNotApply, match="the expression itself"):
        plant(PYTHON, "python", "area", "a * b", "a  *  b")


def test_a_bug_that_python_cannot_read_is_none() -> None:
    with pytest.raises(DoesNotApply, match="is no Python"):
        plant(PYTHON, "python", "area", "a * b", "a *")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_applies_to_the_sources_as_they_are(bug: Bug) -> None:
    source = (ROOT / bug.file).read_text(encoding="utf-8")
    assert plant(source, bug.language, bug.function, bug.expression, bug.replacement) != source


def test_there_are_enough_bugs_in_every_area_and_in_both_languages() -> None:
    assert len(BUGS) >= 20
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    areas = Counter(bug.area for bug in BUGS)
    assert set(areas) == set(AREAS)
    assert min(areas.values()) >= 3
    languages = Counter(bug.language for bug in BUGS)
    assert min(languages["python"], languages["scala"]) >= 10
