"""What a source tells of itself with its progress."""

import json
from typing import Any

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.ordering.offsets import decode_offset
from rmq_ordered.ordering.report import SourceReport, decode_report, encode_report

A, B = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


@pytest.mark.parametrize(
    "report",
    [
        SourceReport({A: 5, B: 7}, "billing", "spark-1", {A: 3, B: None}),
        SourceReport({A: 5, B: 7}, "billing", "spark-1", {}),
        SourceReport({A: 5}),
    ],
)
def test_a_report_comes_back_as_it_was_and_reads_as_an_offset(report: SourceReport) -> None:
    told = json.loads(json.dumps(encode_report(report)))
    assert decode_report(told) == report
    assert decode_offset(told).positions == report.ends


def test_the_leases_are_those_of_its_owner() -> None:
    report = SourceReport({A: 5, B: 7}, "billing", "spark-1", {A: 3})
    assert report.leases == {A: QueueLease("billing", A, "spark-1", 3)}
    assert SourceReport({A: 5}).leases == {}


@pytest.mark.parametrize(
    "leases", [None, 5, {"orders": {"broker-a": {"one": 1}}}], ids=["missing", "number", "queue"]
)
def test_what_is_no_report_is_refused(leases: Any) -> None:
    told = encode_report(SourceReport({A: 5}, "billing", "spark-1", {A: 3}))
    with pytest.raises(OptionError, match="a report with leases"):
        decode_report(told | {"leases": leases})
