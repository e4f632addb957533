"""The JSON that Java brokers really send, and the JSON that nobody should."""

import json

import pytest
from tests.support.paths import GOLDEN

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol import fastjson

RECORDED = json.loads((GOLDEN / "rocketmq-5.5.0-topic-stats.json").read_text())


def test_strict_json_is_read_as_it_is() -> None:
    assert fastjson.loads(b'{"a":[1,2.5,true,null,"x"]}') == {"a": [1, 2.5, True, None, "x"]}


def test_integer_keys_become_text() -> None:
    assert fastjson.loads(b'{0:"h:1", 1 : "h:2"}') == {"0": "h:1", "1": "h:2"}


def test_object_keys_become_their_json_text() -> None:
    parsed = fastjson.loads(b'{{"queueId":0,"topic":"t"}:{"max":1}}')
    assert parsed == {'{"queueId":0,"topic":"t"}': {"max": 1}}


def test_other_keys_become_their_json_text_as_well() -> None:
    assert fastjson.loads(b"{null:1,true:2,[1]:3,-1.5e3:4}") == {
        "null": 1,
        "true": 2,
        "[1]": 3,
        "-1500.0": 4,
    }


def test_every_kind_of_value_may_stand_behind_an_odd_key() -> None:
    text = b'{0:[],1:[1,[2]],2:{},3:{"a":"\\u0041\\n"},4:false,5:null,6:-1.5E+2}'
    assert fastjson.loads(text) == {
        "0": [],
        "1": [1, [2]],
        "2": {},
        "3": {"a": "A\n"},
        "4": False,
        "5": None,
        "6": -150.0,
    }


def test_odd_keys_are_found_however_deep_in_ordinary_objects_they_lie() -> None:
    text = b'{0:{"a":{1:2},"b":[{"c":{{"d":3}:4}}]}}'
    assert fastjson.loads(text) == {"0": {"a": {"1": 2}, "b": [{"c": {'{"d":3}': 4}}]}}


def test_objects_that_only_look_ordinary_are_read_however_many_there_are() -> None:
    count = 1_000
    text = ",".join(f'{{"a":{{{number}:1}}}}' for number in range(count))
    expected = [{"a": {str(number): 1}} for number in range(count)]
    assert fastjson.loads(f"[{text}]".encode()) == expected


def test_space_is_allowed_between_all_tokens() -> None:
    assert fastjson.loads(b" { 0 : [ 1 , { } ] \t} \r\n") == {"0": [1, {}]}


@pytest.mark.parametrize("name", [name for name in RECORDED if name.isupper() or "asked" in name])
def test_what_a_real_broker_sent_is_read(name: str) -> None:
    assert isinstance(fastjson.loads(RECORDED[name].encode()), dict)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"{0",
        b"{0:",
        b"{0:1",
        b"{0:1,",
        b"{0:1,}",
        b"{0 1}",
        b"{0:1 2:3}",
        b"{0:[1}",
        b"{0:[1,]}",
        b"{0:[1 2]}",
        b'{0:"open}',
        b"{0:maybe}",
        b"{0:01}",
        "{0:٣}".encode(),
        b"{0:" + b"1" * 5_000 + b"}",
        b"{0:1}trailing",
        b"\xff",
        b"{" * 100_000,
        b"{0:" * 40 + b"1" + b"}" * 40,
    ],
    ids=lambda text: repr(text[:16]),
)
def test_anything_else_is_a_remote_protocol_error(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        fastjson.loads(text)


def test_the_error_tells_where_and_what() -> None:
    with pytest.raises(RemoteProtocolError, match=r"':' at character 3, found '1\}'"):
        fastjson.loads(b"{0 1}")
