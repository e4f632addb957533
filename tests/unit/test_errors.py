"""The error tree: what may be retried, and that every field that matters is in the sentence."""

import pickle

import pytest

from rmq_ordered import errors
from rmq_ordered.model import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 3)

SAMPLES: list[tuple[errors.RmqOrderedError, list[str]]] = [
    (errors.OptionError("group", "a b", "a name"), ["'group'", "'a b'", "a name"]),
    (errors.OptionError("group", None, "a name"), ["'group'", "expected a name"]),
    (errors.LocalProtocolError("too long"), ["too long"]),
    (errors.RemoteProtocolError("no frame"), ["no frame"]),
    (errors.TransportError("mq1:9876", "broken"), ["mq1:9876", "broken"]),
    (errors.ClientClosed("mq1:9876"), ["mq1:9876", "this client is closed", "make another"]),
    (errors.ConnectFailed("mq1:9876", "refused"), ["mq1:9876", "refused", "check that"]),
    (errors.ConnectionLost("mq1:9876", "reset"), ["mq1:9876", "was lost", "reset"]),
    (errors.RequestTimedOut("mq1:9876", "a pull", 3000), ["mq1:9876", "a pull", "3000", "unknown"]),
    (errors.BrokerError("b:1", "a pull", 26, "no group"), ["b:1", "a pull", "26", "no group"]),
    (errors.BrokerError("b:1", "a pull", 26, None), ["b:1", "26", "no remark"]),
    (errors.TopicNotFound("n:1", "orders", "gone"), ["n:1", "'orders'", "topic create orders"]),
    (
        errors.OffsetOutOfRange("b:1", QUEUE, 5, 10, 20),
        ["orders@broker-a#3", "offset 5", "b:1", "[10, 20)"],
    ),
    (errors.BrokerBusy("b:1", "a send", 2, "flow control"), ["b:1", "a send", "flow control"]),
    (
        errors.AccessDenied("b:1", "a send", 16, "check signature failed"),
        ["b:1", "a send", "check signature failed", "access key", "secret key"],
    ),
    (
        errors.QueueLeaseUnavailable("billing", 90_000, [(QUEUE, "other#1"), (QUEUE, None)]),
        ["'billing'", "90000", "by other#1", "by another client", "leaseTimeout"],
    ),
    (
        errors.QueueLeaseLost("billing", QUEUE, "me#1", "refused"),
        ["'billing'", "orders@broker-a#3", "'me#1'", "refused", "start the query again"],
    ),
    (errors.QueueGap(QUEUE, 7, 9), ["orders@broker-a#3", "7", "9"]),
    (errors.OffsetWentBack("billing", QUEUE, 9, 7), ["'billing'", "9", "7", "back"]),
    (
        errors.ReplayDiverged(QUEUE, "batch 3", 41, "digest aa, not bb"),
        ["orders@broker-a#3", "row 41", "batch 3", "digest aa, not bb", "onReplayDivergence"],
    ),
    (
        errors.BatchSuperseded(QUEUE, "batch 3", 4),
        ["orders@broker-a#3", "batch 3 cannot", "batch 4", "sink id"],
    ),
    (
        errors.StreamGap(QUEUE, "batch 3", 10, 6),
        ["orders@broker-a#3", "10 rows of batch 3", "has 6", "start the query again"],
    ),
    (
        errors.QueueLayoutChanged("orders", [QUEUE], 3),
        ["'orders'", "orders@broker-a#3", "3 others", "onQueueLayoutChange=rehash"],
    ),
    (
        errors.SendUnsettled(QUEUE, "b:1 is away"),
        ["orders@broker-a#3", "left a request in flight", "b:1 is away", "new OrderedProducer"],
    ),
    (
        errors.WriteFenced(QUEUE, "q/r", "held by next-run"),
        ["orders@broker-a#3", "run q/r", "held by next-run", "start this query again"],
    ),
    (errors.EmbeddedBrokerError("it died", 1, ["a", "b"]), ["it died", "exit code 1", "a\n  b"]),
    (
        errors.UndecodableMessage("orders@broker-a#0", 7, "AC11", "not JSON"),
        ["orders@broker-a#0", "7", "AC11", "not JSON", "onDecodeError"],
    ),
    (errors.EmbeddedBrokerUnavailable("Java is missing"), ["Java is missing"]),
    (errors.EmbeddedBrokerError("it died", None, []), ["it died", "None", "(no output)"]),
]


@pytest.mark.parametrize(("error", "parts"), SAMPLES, ids=lambda value: type(value).__name__)
def test_the_sentence_carries_every_field_that_matters(
    error: errors.RmqOrderedError, parts: list[str]
) -> None:
    assert [part for part in parts if part not in str(error)] == []


@pytest.mark.parametrize("error", [error for error, _ in SAMPLES], ids=lambda e: type(e).__name__)
def test_an_error_survives_pickling_with_its_fields(error: errors.RmqOrderedError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_every_class_of_the_tree_has_a_sample() -> None:
    tree = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.RmqOrderedError)
    }
    abstract = {errors.RmqOrderedError, errors.ProtocolError, errors.OrderingError}
    assert {type(error) for error, _ in SAMPLES} == tree - abstract


def test_only_what_the_network_or_flow_control_did_may_be_tried_again() -> None:
    retryable = {type(error).__name__ for error, _ in SAMPLES if error.retryable}
    assert retryable == {
        "TransportError",
        "ConnectFailed",
        "ConnectionLost",
        "RequestTimedOut",
        "BrokerBusy",
    }


def test_no_error_about_order_is_retryable() -> None:
    ordering = [error for error, _ in SAMPLES if isinstance(error, errors.OrderingError)]
    assert len(ordering) == 10
    assert not any(error.retryable for error in ordering)


def test_errors_are_also_what_callers_of_the_standard_library_expect() -> None:
    assert isinstance(errors.OptionError("a", "b", "c"), ValueError)
    assert isinstance(errors.RequestTimedOut("a", "b", 1), TimeoutError)


def test_broker_refusals_have_rocketmq_codes() -> None:
    assert errors.TopicNotFound("n:1", "orders").code == 17
    assert errors.OffsetOutOfRange("b:1", QUEUE, 5, 10, 20).code == 21
