"""What is told when a batch is written."""

import logging

import pytest
from tests.support.promises import proves

from rmq_ordered.client.ledger import WriteAttempt
from rmq_ordered.model import MessageQueue, QueueReceipt, SendStream
from rmq_ordered.options import SinkOptions
from rmq_ordered.spark.writing.commit import aborted, committed
from rmq_ordered.spark.writing.task import SentMessage

OPTIONS = SinkOptions.parse({"nameServer": "127.0.0.1:1", "topic": "t"})
FIRST, SECOND = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def sent(partition: int, *receipts: QueueReceipt, keys: tuple[str, ...] = ()) -> SentMessage:
    attempt = WriteAttempt(SendStream("query-1", 7, partition), "run", is_first=True)
    return SentMessage(attempt, False, list(receipts), frozenset((0, key) for key in keys))


def test_counts_and_the_offsets_of_every_queue_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    committed(
        OPTIONS,
        [
            sent(0, QueueReceipt(FIRST, 5, 1, 10, 15), QueueReceipt(SECOND, 2, 0, 0, 1)),
            sent(1, QueueReceipt(FIRST, 3, 0, 16, 18)),
            None,
        ],
    )
    assert [record.getMessage() for record in caplog.records] == [
        "sent count=10 duplicates=1 tasks=2 sink=query-1 batch=7",
        "sent queue=t@broker-a#0 count=8 first_offset=10 last_offset=18 batch=7",
        "sent queue=t@broker-a#1 count=2 first_offset=0 last_offset=1 batch=7",
    ]


@proves("sequence-column")
def test_a_key_of_two_tasks_is_a_warning_that_tells_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    committed(OPTIONS, [sent(0, keys=("a", "b")), sent(1, keys=("b", "c"))])
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "key 'b' was written by two tasks" in warning.getMessage()
    assert "by_key(df, 'key')" in warning.getMessage()


def test_keys_of_one_task_each_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    committed(OPTIONS, [sent(0, keys=("a", "b")), sent(1, keys=("c",))])
    assert "written by two tasks" not in caplog.text


def test_an_aborted_batch_is_told(caplog: pytest.LogCaptureFixture) -> None:
    aborted([sent(0), None, None], "batch=7")
    assert "aborted after 1 of 3 tasks had sent their rows batch=7" in caplog.text


def test_a_batch_without_tasks_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    committed(OPTIONS, [None])
    assert caplog.text == ""
