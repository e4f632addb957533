"""Examples in docstrings and on the client's page are run as they stand, at this test's broker."""

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmq_ordered.client
import rmq_ordered.testing
from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
ADDRESS = "127.0.0.1:9876"
PACKAGES = (rmq_ordered.client, rmq_ordered.testing)


def documented() -> Iterator[doctest.DocTest]:
    """Every docstring with examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for package in PACKAGES:
        names = [name for _, name, _ in pkgutil.iter_modules(package.__path__)]
        for name in [package.__name__, *(f"{package.__name__}.{name}" for name in names)]:
            yield from (
                test for test in finder.find(importlib.import_module(name)) if test.examples
            )


DOCSTRINGS = {test.name: test for test in documented()}


@pytest.fixture(scope="module")
def name_server() -> Iterator[str]:
    """Of a broker whose topics begin where the examples say."""
    with EmbeddedBroker() as broker:
        # A JVM's first answers are slow, and the examples have a client's usual patience.
        with Client(broker.name_server, request_timeout_ms=30_000) as client:
            client.broker.create_topic("first", 1)
            OrderedProducer(client, "first").send("key", b"first")
        yield broker.name_server


def run(test: doctest.DocTest, name_server: str) -> None:
    for example in test.examples:
        example.source = example.source.replace(ADDRESS, name_server)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_the_examples_of_a_docstring_run(name: str, name_server: str) -> None:
    run(DOCSTRINGS[name], name_server)


def test_the_public_packages_show_how_they_are_used() -> None:
    assert {package.__name__ for package in PACKAGES} <= DOCSTRINGS.keys()


def test_the_examples_of_the_clients_page_run(name_server: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == text.count("```python"), "every block was found"
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) > 20
    run(page, name_server)


def test_types_are_for_everybody() -> None:
    assert Path(rmq_ordered.client.__file__).parents[1].joinpath("py.typed").is_file()
