"""Notes that a batch is finished, kept by name servers."""

import pytest

from rmq_ordered.spark.popping.notes import FinishedNotes
from rmq_ordered.testing import ClusterDouble


@pytest.fixture
def notes(cluster: ClusterDouble) -> FinishedNotes:
    return FinishedNotes(cluster.client().kv, "packing")


def test_a_run_is_told_what_was_said_of_it_and_of_nobody_else(notes: FinishedNotes) -> None:
    assert notes.told("run-1") == 0
    notes.tell("run-1", 7)
    notes.tell("run-2", 9)
    assert (notes.told("run-1"), notes.told("run-2")) == (7, 9)
    notes.forget("run-1")
    assert (notes.told("run-1"), notes.told("run-2")) == (0, 9)


def test_groups_do_not_read_each_other_s_notes(
    cluster: ClusterDouble, notes: FinishedNotes
) -> None:
    notes.tell("run-1", 7)
    assert FinishedNotes(cluster.client().kv, "billing").told("run-1") == 0


def test_a_note_that_is_no_number_says_nothing(
    cluster: ClusterDouble, notes: FinishedNotes
) -> None:
    cluster.client().kv.put("rmq-ordered-pop@packing", "run-1", "soon")
    assert notes.told("run-1") == 0
