"""Keys that two tasks share are found by small samples."""

import pyarrow as pa

from rmq_ordered.spark.writing.keys import KeySample, Sample, shared_key


def sample(*batches: list[str | None]) -> Sample:
    found = KeySample()
    for batch in batches:
        found.add(pa.array(batch, pa.string()))
    return found.sample


def test_a_key_of_two_tasks_is_named() -> None:
    assert shared_key([sample(["a", "b"]), sample(["c"], ["b", "b"])]) == "b"
    assert shared_key([sample(["a", "b"]), sample(["c", None]), sample([None]), sample([])]) is None


def test_the_empty_key_is_a_key() -> None:
    assert shared_key([sample([""]), sample([""])]) == ""


def test_a_sample_stays_small_and_finds_keys_that_are_spread_over_tasks() -> None:
    keys = [f"order-{number}" for number in range(100_000)]
    left, right = sample(keys[:70_000], keys[60_000:80_000]), sample(keys[50_000:])
    assert len(left) == len(right) == 256
    assert shared_key([left, right]) is not None


def test_tasks_without_common_keys_never_seem_to_have_some() -> None:
    keys = [f"order-{number}" for number in range(20_000)]
    assert shared_key([sample(keys[part::4]) for part in range(4)]) is None


def test_a_sample_does_not_depend_on_the_order_of_rows() -> None:
    keys = [f"order-{number}" for number in range(5_000)]
    assert sample(keys) == sample(keys[2_500:], keys[:2_500]) == sample(keys[::-1])


def test_keys_with_the_same_java_hash_are_two_keys() -> None:
    assert shared_key([sample(["Aa"], ["BB"]), sample(["BB"])]) == "BB"
    assert shared_key([sample(["Aa"]), sample(["BB"])]) is None


def test_keys_that_come_again_and_those_that_are_long_are_kept_once() -> None:
    long = "k" * 300
    assert len(sample(["a", long], ["a", long, "b"], [long])) == 3
