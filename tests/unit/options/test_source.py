"""A source's options as one value: defaults, fields, and combinations that cannot be meant."""

import pickle

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.options import (
    Admission,
    Boundary,
    ConnectionOptions,
    DecodeErrors,
    LeaseMode,
    NoMatch,
    RowOptions,
    Selection,
    SourceOptions,
    StartPosition,
    ValueFormat,
    parse_rows,
)

SOURCE = {"nameServer": "mq1:9876", "subscribe": "orders", "group": "billing"}


def source(streaming: bool = True, **changes: str | None) -> SourceOptions:
    merged = {name: value for name, value in (SOURCE | changes).items() if value is not None}
    return SourceOptions.parse(merged, streaming=streaming)


def test_a_stream_with_no_more_than_it_needs_has_the_documented_defaults() -> None:
    assert source() == SourceOptions(
        connection=ConnectionOptions(("mq1:9876",), 3_000),
        selection=Selection(("orders",)),
        wait_for_topic_ms=None,
        tags=None,
        sql92=None,
        group="billing",
        starting=Boundary(StartPosition.GROUP, StartPosition.EARLIEST),
        ending=Boundary(None, StartPosition.LATEST),
        fail_on_data_loss=True,
        admission=Admission(),
        lease_mode=LeaseMode.EXCLUSIVE,
        lease_timeout_ms=90_000,
        instance_id=None,
        rows=RowOptions("__SHARDINGKEY", False, ValueFormat.RAW, None, DecodeErrors.FAIL),
    )


def test_a_batch_read_begins_at_the_beginning_and_owns_nothing() -> None:
    options = source(streaming=False, group=None)
    assert options.starting.position is StartPosition.EARLIEST
    assert options.lease_mode is LeaseMode.NONE
    assert options.group is None


def test_every_option_of_a_stream_reaches_its_field() -> None:
    options = source(
        nameServer=" mq1:9876 , [::1]:9877;",
        subscribe="b,a,b",
        waitForTopic="5m",
        tags="paid || shipped",
        startingTimestamp="2026-01-31T08:00:00Z",
        startingOffsetsFallback="latest",
        startingTimestampNoMatch="error",
        failOnDataLoss="false",
        maxOffsetsPerTrigger=" 500 ",
        maxBytesPerTrigger="64m",
        minOffsetsPerTrigger="5",
        maxTriggerDelay="1m",
        leaseMode="exclusive",
        leaseTimeout="2m",
        instanceId=" nightly ",
        keyFrom="property:region",
        includeProperties="TRUE",
        valueFormat="json",
        valueSchema="id bigint",
        onDecodeError="dlq",
        requestTimeout="500ms",
        accessKey="me",
        secretKey="env:MQ_SECRET",
        securityToken="file:/run/token",
        tls="true",
        tlsCaFile="ca.pem",
        tlsCertificateFile="me.pem",
        tlsKeyFile="me.key",
        tlsCheckHost="false",
    )
    assert options.connection.name_servers == ("mq1:9876", "[::1]:9877")
    assert options.connection.request_timeout_ms == 500
    assert str(options.connection.secret_key) == "env:MQ_SECRET"
    assert str(options.connection.security_token) == "file:/run/token"
    assert options.connection.tls is not None
    assert options.selection == Selection(("a", "b"))
    assert options.wait_for_topic_ms == 300_000
    assert options.tags == ("paid", "shipped")
    assert options.starting == Boundary(
        None, StartPosition.LATEST, {}, 1_769_846_400_000, NoMatch.ERROR
    )
    assert options.fail_on_data_loss is False
    assert options.admission == Admission(500, 64 * 2**20, 5, 60_000)
    assert (options.lease_mode, options.lease_timeout_ms) == (LeaseMode.EXCLUSIVE, 120_000)
    assert options.instance_id == "nightly"
    assert options.rows == RowOptions("region", True, ValueFormat.JSON, "id bigint",
                                      DecodeErrors.DLQ)  # fmt: skip


def test_queues_can_be_named_one_by_one_or_by_a_pattern() -> None:
    assigned = source(subscribe=None, assign='{"orders":{"a":[1,0]},"audit":{"b":[2]}}')
    assert assigned.selection.queues == (
        MessageQueue("audit", "b", 2),
        MessageQueue("orders", "a", 0),
        MessageQueue("orders", "a", 1),
    )
    assert source(subscribe=None, subscribePattern="ord.*").selection.pattern == "ord.*"


def test_names_are_case_insensitive_because_spark_lowers_them() -> None:
    lowered = {name.lower(): value for name, value in SOURCE.items()}
    assert SourceOptions.parse(lowered, streaming=True) == source()


@pytest.mark.parametrize(
    ("streaming", "changes", "sentence"),
    [
        (True, {"subscribe": None}, "one of subscribe, subscribePattern and assign; it must be"),
        (True, {"subscribePattern": "a.*"}, "found 'subscribe and subscribePattern'"),
        (True, {"assign": '{"a":{"b":[0]}}'}, "found 'subscribe and assign'"),
        (True, {"tags": "a", "sql92": "b > 1"}, "only one of tags and sql92"),
        (True, {"startingOffsets": "latest", "startingTimestamp": "5"}, "only one of starting"),
        (False, {"startingOffsets": "latest"}, "it would read nothing"),
        (
            False,
            {"startingOffsets": '{"orders":{"a":{"0":5,"1":-1}}}'},
            "'startingOffsets': expected another place for a batch read.*-1 of orders@a#1",
        ),
        (
            False,
            {"endingOffsets": '{"orders":{"a":{"0":5,"1":-2}}}'},
            "'endingOffsets': expected another place for a batch read.*-2 of orders@a#1",
        ),
        (
            True,
            {"startingTimestampNoMatch": "error"},
            "'startingTimestampNoMatch': expected startingTimestamp beside it.*found 'error'",
        ),
        (False, {"startingTimestampNoMatch": "latest"}, "expected startingTimestamp beside it"),
        (True, {"endingOffsets": "latest"}, "in a batch read only"),
        (True, {"endingTimestamp": "5"}, "in a batch read only"),
        (False, {"endingOffsets": "latest", "endingTimestamp": "5"}, "only one of ending"),
        (False, {"startingTimestamp": "9", "endingTimestamp": "5"}, "a time from 9 on"),
        (False, {"maxOffsetsPerTrigger": "5"}, "in a stream only"),
        (False, {"instanceId": "a"}, "in a stream only"),
        (False, {"leaseMode": "exclusive"}, "none for a batch read"),
        (
            True,
            {"leaseMode": "none", "instanceId": "a"},
            "'instanceId': expected leaseMode exclusive beside it: leaseMode=none owns no queue",
        ),
        (
            True,
            {"leaseMode": "none", "leaseTimeout": "90s"},
            "'leaseTimeout': expected leaseMode exclusive or shared beside it",
        ),
        (False, {"leaseMode": "none", "instanceId": "a"}, "in a stream only"),
        (True, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "at most maxOffsets"),
        (True, {"maxTriggerDelay": "5s"}, "minOffsetsPerTrigger beside it"),
        (True, {"valueFormat": "json"}, "because valueFormat=json"),
        (True, {"valueSchema": "id int"}, "valueFormat json or msgpack beside it"),
        (True, {"valueFormat": "string", "valueSchema": "id int"}, "json or msgpack beside it"),
        (True, {"accessKey": "me"}, "both of accessKey and secretKey"),
        (True, {"secretKey": "env:X"}, "both of accessKey and secretKey"),
        (True, {"securityToken": "env:X"}, "an access key beside securityToken"),
        (True, {"strictSignature": "true"}, "an access key beside strictSignature"),
        (True, {"tlsCaFile": "ca.pem"}, "tls=true beside it"),
        (True, {"tlsCheckHost": "false"}, "'tlsCheckHost': expected tls=true beside it"),
        (True, {"tls": "true", "tlsKeyFile": "k"}, "both of tlsCertificateFile and tlsKeyFile"),
        (True, {"group": None}, "because leaseMode=exclusive owns queues in its name"),
        (
            True,
            {"group": None, "leaseMode": "none", "startingOffsets": "group"},
            "because startingOffsets=group reads its offsets",
        ),
        (
            False,
            {"group": None, "onDecodeError": "dlq"},
            "because onDecodeError=dlq writes to its dead-letter topic",
        ),
    ],
)
def test_what_cannot_be_meant_together_is_refused(
    streaming: bool, changes: dict[str, str | None], sentence: str
) -> None:
    with pytest.raises(OptionError, match=sentence):
        source(streaming, **changes)


def test_a_stream_that_owns_nothing_and_starts_elsewhere_needs_no_group() -> None:
    assert source(group=None, leaseMode="none", startingOffsets="latest").group is None


def test_offsets_may_mean_the_end_where_a_stream_begins_and_where_a_batch_read_ends() -> None:
    latest = '{"orders":{"a":{"0":-1}}}'
    queue = MessageQueue("orders", "a", 0)
    assert source(startingOffsets=latest).starting.offsets == {queue: -1}
    assert source(streaming=False, endingOffsets=latest).ending.offsets == {queue: -1}


def test_what_the_rows_look_like_is_known_before_the_kind_of_read_is() -> None:
    assert parse_rows(SOURCE | {"includeProperties": "true"}).include_properties
    with pytest.raises(OptionError, match="valueSchema"):
        parse_rows(SOURCE | {"valueFormat": "msgpack"})


def test_options_cross_processes_and_hold_no_secret() -> None:
    options = source(accessKey="me", secretKey="env:MQ_SECRET")
    assert pickle.loads(pickle.dumps(options)) == options
