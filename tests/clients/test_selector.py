"""Our selector beside Apache's own class, on a JVM: the same key, the same queue."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.java_clients import JavaClients, SelectorOracle

from rmq_ordered.columnar.routing import hash_indexes
from rmq_ordered.ordering.selector import hash_index, java_string_hash

# Everything a Java string can hold, lone surrogates included.
KEYS = st.text(st.characters(), max_size=40)


@pytest.fixture
def oracle(javaclients: JavaClients) -> Iterator[SelectorOracle]:
    with javaclients.selector_oracle() as running:
        yield running


@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(key=KEYS, queues=st.integers(1, 1_024))
@example(key="", queues=4)
@example(key="polygenelubricants", queues=7)
@example(key="\ud800", queues=3)
@example(key="key\U0001f600", queues=8)
def test_our_hash_and_javas_selector_agree_on_any_key(
    oracle: SelectorOracle, key: str, queues: int
) -> None:
    chosen = oracle.choose(key, queues)
    assert (java_string_hash(key), hash_index(key, queues)) == (chosen.hash_code, chosen.index)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    # What a column can hold: any text but lone surrogates, which have no UTF-8.
    keys=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=8),
    queues=st.integers(1, 1_024),
)
@example(keys=["", "key\U0001f600", "\U00010000\U0010ffff", ""], queues=7)
def test_the_selector_of_whole_columns_and_javas_agree(
    oracle: SelectorOracle, keys: list[str], queues: int
) -> None:
    chosen = [oracle.choose(key, queues).index for key in keys]
    assert hash_indexes(pa.array(keys, pa.string()), queues).tolist() == chosen
