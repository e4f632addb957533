"""What a tier and the words behind it select, in both languages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _pytest.mark.expression import Expression
from tests.support.promises import PROOF, TEST, MarkedTest

QUICK = "quick"
TIERS = (QUICK, TEST, PROOF)
# What needs neither Java nor a server.
QUICK_FOLDERS = ("tests/architecture", "tests/coverage", "tests/mutations", "tests/packaging",
                 "tests/property", "tests/runner", "tests/unit")  # fmt: skip
_SCALA_FOLDER = "src/test/scala/"
_MARKS = {QUICK: "not proof", TEST: "not proof", PROOF: "proof or generated"}
# Options of pytest whose value is the next word.
_WITH_VALUE = ("-k", "-m", "-n", "-p", "-o", "-c", "-W", "--tb", "--maxfail")


@dataclass(frozen=True)
class Selection:
    """A tier, and the part of it that is wanted.

    Args:
        tier: One of `TIERS`.
        options: What is handed to pytest as it is.
        keywords: The expression behind ``-k``; empty for everything.
        marks: The expression behind ``-m``; empty for everything.
        python: Files, folders and tests for pytest; empty for all of the tier, unless Scala's
            alone are named.
        scala: Scala's test files; likewise.
    """

    tier: str
    options: tuple[str, ...] = ()
    keywords: str = ""
    marks: str = ""
    python: tuple[str, ...] = ()
    scala: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the tier runs as a whole, so that its record proves something."""
        return not (self.options or self.keywords or self.marks or self.python or self.scala)

    @property
    def has_python(self) -> bool:
        """Whether anything of Python is wanted."""
        return bool(self.python) or not self.scala

    @property
    def has_scala(self) -> bool:
        """Whether anything of Scala is wanted."""
        return self.tier != QUICK and (bool(self.scala) or not self.python)

    def pytest_arguments(self) -> list[str]:
        """What pytest is called with."""
        marks = _MARKS[self.tier]
        if self.marks:
            marks = f"({marks}) and ({self.marks})"
        words = ["-m", marks, *self.options]
        if self.keywords:
            words += ["-k", self.keywords]
        paths = self.python or (QUICK_FOLDERS if self.tier == QUICK else ())
        return [*words, *(path for path in paths if Path(path.partition("::")[0]).exists())]

    def scala_tests(self, tests: Iterable[MarkedTest]) -> list[MarkedTest]:
        """Those of Scala's tests that are wanted."""
        wanted = [test for test in tests if test.language == "scala" and test.tier == self.tier]
        if self.scala:
            wanted = [test for test in wanted if test.file.startswith(self.scala)]
        if self.keywords:
            expression = Expression.compile(self.keywords)
            wanted = [test for test in wanted if _matches(expression, test)]
        return wanted


def selected(tier: str, words: Sequence[str]) -> Selection:
    """Reads the words behind a tier as pytest would."""
    options: list[str] = []
    named: dict[str, str] = {}
    python: list[str] = []
    scala: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-k", "-m"):
            named[word] = rest.pop(0) if rest else ""
        elif word in _WITH_VALUE and rest:
            options += [word, rest.pop(0)]
        elif word.startswith("-"):
            options.append(word)
        else:
            (scala if word.startswith(_SCALA_FOLDER) else python).append(word)
    return Selection(
        tier,
        tuple(options),
        named.get("-k", ""),
        named.get("-m", ""),
        tuple(python),
        tuple(scala),
    )


def suite_of(test: MarkedTest) -> str:
    """The class of a Scala test."""
    return test.file.removeprefix(_SCALA_FOLDER).removesuffix(".scala").replace("/", ".")


def sbt_command(selection: Selection, tests: Sequence[MarkedTest]) -> str:
    """The command with which sbt runs these of Scala's tests."""
    suites = sorted({suite_of(test) for test in tests})
    tags = "--include-tags" if selection.tier == PROOF else "--exclude-tags"
    words = [*suites, "--", f"{tags}=Proof"]
    if selection.keywords:
        words += sorted({_pattern(test) for test in tests})
    return " ".join(["testOnly", *words])


def _matches(expression: Expression, test: MarkedTest) -> bool:
    text = f"{test.file} {test.name} {' '.join(test.promises)}".lower()
    return expression.evaluate(lambda word, /, **_: word.lower() in text)


def _pattern(test: MarkedTest) -> str:
    """A pattern for munit: sbt would split a sentence at its spaces."""
    words = "".join(letter if letter.isalnum() else "*" for letter in test.name)
    return f"*{suite_of(test).rpartition('.')[2]}.{words}"
