"""The source's options one by one: wrong values, unknown names, and which reach their field."""

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SOURCE_OPTIONS, SourceOptions
from rmq_ordered.options.source_table import BATCH_ONLY, STREAM_ONLY

SOURCE = {"nameServer": "mq1:9876", "subscribe": "orders", "group": "billing"}

BAD_DURATIONS = ["", "0", "0s", "-1s", "1.5s", "s", "5x", "5sm", "5 s", "soon", "8761h",
                 "31536000001", str(2**63)]  # fmt: skip
BAD_FLAGS = ["", "yes", "1"]
BAD_COUNTS = ["", "0", "-1", "1.5", "1e3", "many", str(2**63)]
BAD_TIMES = ["", "0", "-5", "noon", "2026-13-01", "1.5", "1960-01-01"]
BAD_SECRETS = ["", "hunter2", "env:", "file:", "vault:x", ":x"]
BAD_OFFSETS = [
    "{}",
    "{",
    '{"orders":5}',
    '{"orders":{"a":[0]}}',
    '{"orders":{"a":{"0":-3}}}',
    '{"orders":{"a":{"0":"5"}}}',
    '{"orders":{"a":{"x":5}}}',
    '{"orders":{"a":{"-1":5}}}',
    '{"orders":{"a":{"0":true}}}',
    '{"a b":{"a":{"0":1}}}',
    '{"orders":{"a":{"0":1.5}}}',
]
BAD_VALUES: dict[str, list[str]] = {
    "nameServer": ["", ";", "mq1", "mq1:", ":9876", "mq1:0", "mq1:65536", "mq1:x", "mq1:1;mq2"],
    "subscribe": ["", " ", "a b", "a/b", "a,b c", "ä", "a" * 128, "a,,b", ","],
    "subscribePattern": ["", " ", "(", "[", "a{99999999999}"],
    "assign": ["", "orders", "{}", "[]", '{"orders":{"a":0}}', '{"orders":{"a":[]}}',
               '{"orders":{"a":[-1]}}', '{"orders":{"a":["0"]}}', '{"orders":[0]}'],
    "waitForTopic": BAD_DURATIONS,
    "tags": ["", "||", "a ||", "*", "a b", "a|b"],
    "sql92": ["", " "],
    "group": ["", " ", "a b", "a/b", "a" * 121],
    "startingOffsets": ["", "Earliest", "first", "-2", *BAD_OFFSETS],
    "startingOffsetsFallback": ["", "group", "none"],
    "startingTimestamp": BAD_TIMES,
    "startingTimestampNoMatch": ["", "earliest", "fail"],
    "endingOffsets": ["", "earliest", "group", *BAD_OFFSETS],
    "endingTimestamp": BAD_TIMES,
    "failOnDataLoss": BAD_FLAGS,
    "maxOffsetsPerTrigger": BAD_COUNTS,
    "maxBytesPerTrigger": ["", "0", "m", "1t", "-1k", "1.5g", "many", f"{2**33}g", f"{2**63}",
                           "9223372036854775807g"],
    "minOffsetsPerTrigger": BAD_COUNTS,
    "maxTriggerDelay": BAD_DURATIONS,
    "leaseMode": ["", "shared?", "true"],
    "leaseTimeout": BAD_DURATIONS,
    "instanceId": ["", " ", "a#1", "a@b"],
    "consumeMode": ["", "POP", "push"],
    "invisibleTime": [*BAD_DURATIONS, "4999ms", "13h"],
    "popOrder": ["", "key", "true"],
    "keyFrom": ["", "property", "property:", "key", "shardingkey"],
    "includeProperties": BAD_FLAGS,
    "valueFormat": ["", "avro", "JSON"],
    "valueSchema": ["", " "],
    "onDecodeError": ["", "skip", "DLQ"],
    "requestTimeout": BAD_DURATIONS,
    "accessKey": ["", " "],
    "secretKey": BAD_SECRETS,
    "securityToken": BAD_SECRETS,
    "strictSignature": BAD_FLAGS,
    "tls": BAD_FLAGS,
    "tlsCaFile": ["", " "],
    "tlsCertificateFile": ["", " "],
    "tlsKeyFile": ["", " "],
    "tlsCheckHost": BAD_FLAGS,
}  # fmt: skip
BAD = [(name, bad) for name, values in BAD_VALUES.items() for bad in values]


def test_every_option_is_tested_with_wrong_values() -> None:
    assert {option.name for option in SOURCE_OPTIONS} == set(BAD_VALUES)


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_a_wrong_value_is_refused_with_what_was_found_and_what_is_expected(
    name: str, bad: str
) -> None:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse(SOURCE | {name: bad}, streaming=True)
    assert caught.value.option == name
    (option,) = [option for option in SOURCE_OPTIONS if option.name == name]
    assert caught.value.expected == option.expected
    if option.is_secret:
        assert "hunter2" not in str(caught.value)
    else:
        assert caught.value.found == bad


def test_every_default_passes_its_own_check() -> None:
    for option in SOURCE_OPTIONS:
        if option.default is not None:
            assert option.parse(option.default) is not None


def test_what_belongs_to_one_kind_of_read_is_an_option() -> None:
    names = {option.name for option in SOURCE_OPTIONS}
    assert names > STREAM_ONLY | BATCH_ONLY
    assert not STREAM_ONLY & BATCH_ONLY
