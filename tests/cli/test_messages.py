"""send and tail: what goes in comes out, per key in order."""

import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, Cli, Spawn
from tests.support.brokers import unique_name
from tests.support.waiting import wait_until

from rmq_ordered import Client, EmbeddedBroker


@pytest.fixture
def topic(cli: Cli) -> str:
    name = unique_name("orders")
    cli("topic", "create", name, "--queues", "4")
    return name


def lines(count: int, keys: int = 7) -> bytes:
    return b"".join(b"order-%d\tstep %d\n" % (n % keys, n) for n in range(count))


def test_messages_come_out_in_the_order_of_each_key(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin=lines(500))
    messages = cli("tail", topic, "--from", "earliest", "--no-follow", "--json").objects
    assert len(messages) == 500
    for key in range(7):
        values = [m["value"] for m in messages if m["key"] == f"order-{key}"]
        assert values == [f"step {n}" for n in range(key, 500, 7)]
    for queue in range(4):
        offsets = [m["offset"] for m in messages if m["queue"] == queue]
        assert offsets == list(range(len(offsets)))


def test_a_message_has_every_field(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin="schlüssel\tgrün\tund blau".encode())
    (message,) = cli("tail", topic, "--from", "earliest", "--max", "1", "--json").objects
    assert message.pop("messageId")
    assert message.pop("timestamp").endswith("Z")
    assert message.pop("queue") in range(4)
    assert message == {
        "key": "schlüssel",
        "value": "grün\tund blau",
        "encoding": "utf-8",
        "topic": topic,
        "broker": "broker-a",
        "offset": 0,
        "tags": None,
        "keys": None,
    }


def test_bytes_that_are_not_text_survive(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin=b"k\t\xff\xfe\n")
    (message,) = cli("tail", topic, "--from", "earliest", "--no-follow", "--json").objects
    assert (message["value"], message["encoding"]) == ("//4=", "base64")


def test_lines_of_tail_without_their_place_are_lines_of_send(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin=lines(20, keys=1))
    text = cli("tail", topic, "--from", "earliest", "--no-follow").stdout
    assert "".join(f"{line.partition(chr(9))[2]}\n" for line in text.splitlines()).encode() == (
        lines(20, keys=1)
    )


def test_send_tells_how_many_went_where(cli: Cli, topic: str) -> None:
    (report,) = cli("send", topic, "--json", stdin=lines(100)).objects
    assert (report["topic"], report["count"]) == (topic, 100)
    assert sum(queue["count"] for queue in report["queues"]) == 100
    for queue in report["queues"]:
        assert queue["lastOffset"] - queue["firstOffset"] + 1 == queue["count"]
    text = cli("send", topic, stdin=b"k\tv\n")
    assert text.stdout.startswith(f"sent 1 message to {topic}\n")
    assert text.cells[1] == ["broker", "queue", "count", "first", "offset", "last", "offset"]
    assert text.cells[2][2] == "1"


def test_nothing_to_send_is_no_error(cli: Cli, topic: str) -> None:
    assert cli("send", topic).stdout == f"sent 0 messages to {topic}\n"


def test_a_line_without_a_tab_is_named_and_what_came_before_is_sent(cli: Cli, topic: str) -> None:
    refused = cli("send", topic, stdin=b"a\t1\nb\t2\noops\nc\t3\n", exit_code=1)
    assert refused.stdout == ""
    assert refused.stderr == (
        "error: line 3: expected KEY<TAB>VALUE, found no tab; the 2 lines before it were sent\n"
    )
    assert cli("topic", "describe", topic, "--json").objects[0]["count"] == 2


def test_a_message_that_is_too_large_is_named_by_its_line(cli: Cli, topic: str) -> None:
    refused = cli("send", topic, stdin=b"a\t1\nb\t" + bytes(5_000_000) + b"\n", exit_code=1)
    assert refused.stderr.startswith("error: line 2: a message of 5000000 bytes")


@pytest.mark.parametrize("command", [["send"], ["tail"]])
def test_an_unknown_topic_is_one_sentence(cli: Cli, command: list[str]) -> None:
    refused = cli(*command, "nowhere", stdin=b"k\tv\n", exit_code=1)
    assert refused.stderr.startswith("error: topic 'nowhere' is not known at ")


def test_max_stops_after_so_many(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin=lines(50))
    assert len(cli("tail", topic, "--from", "earliest", "--max", "7", "--json").objects) == 7


def test_more_messages_than_one_round_takes_are_all_shown(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin=lines(3_500, keys=1))
    messages = cli("tail", topic, "--from", "earliest", "--no-follow", "--json").objects
    assert [m["offset"] for m in messages] == list(range(3_500))


def test_without_following_the_latest_messages_are_none(cli: Cli, topic: str) -> None:
    cli("send", topic, stdin=lines(5))
    outcome = cli("tail", topic, "--no-follow")
    assert (outcome.stdout, outcome.stderr) == ("", "")


def test_tail_follows_from_the_end_until_it_has_enough(
    cli: Cli, topic: str, spawn: Spawn, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    cli("send", topic, stdin=b"k\told\n")
    tail = spawn("tail", topic, "--max", "2", "--json", name_server=embedded_broker.name_server)
    _wait_for_following(tmp_path)
    cli("send", topic, stdin=b"k\tnew\n")
    assert tail.stdout is not None
    assert b'"new"' in tail.stdout.readline()
    cli("send", topic, stdin=b"k\tnewer\n")
    assert b'"newer"' in tail.stdout.readline()
    assert tail.wait(20) == 0


def test_ctrl_c_ends_tail_quietly(
    topic: str, spawn: Spawn, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    tail = spawn("tail", topic, name_server=embedded_broker.name_server)
    _wait_for_following(tmp_path)
    tail.send_signal(signal.SIGINT)
    assert tail.wait(20) == 130
    assert (tmp_path / "stderr").read_text() == f"following {topic} from latest; Ctrl-C stops\n"


def test_tail_goes_on_with_a_topic_that_was_created_anew(
    cli: Cli, topic: str, spawn: Spawn, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    cli("send", topic, stdin=lines(8, keys=1))
    tail = spawn("tail", topic, "--max", "1", "--json", name_server=embedded_broker.name_server)
    _wait_for_following(tmp_path)
    with Client(embedded_broker.name_server) as client:
        # In one go, so that no poll of tail sees the topic missing.
        tail.send_signal(signal.SIGSTOP)
        client.broker.delete_topic(topic)
        client.broker.create_topic(topic, 4)
        tail.send_signal(signal.SIGCONT)
    cli("send", topic, stdin=b"order-0\tfresh\n")
    assert tail.stdout is not None
    assert b'"fresh"' in tail.stdout.readline()
    assert "messages expired or the topic was created anew" in (tmp_path / "stderr").read_text()


def test_a_reader_that_leaves_early_is_no_catastrophe(
    cli: Cli, topic: str, embedded_broker: EmbeddedBroker
) -> None:
    cli("send", topic, stdin=lines(3_000))
    pipe = f"{' '.join(COMMAND)} tail {topic} --from earliest --no-follow | head -n 1"
    answer = subprocess.run(
        ["/bin/sh", "-c", f"NAMESRV_ADDR={embedded_broker.name_server} {pipe}"],
        capture_output=True,
        check=True,
    )
    assert answer.stdout.count(b"\n") == 1
    assert answer.stderr == b""


def test_lines_are_sent_as_they_come(
    cli: Cli, topic: str, spawn: Spawn, embedded_broker: EmbeddedBroker
) -> None:
    send = spawn("send", topic, "--json", name_server=embedded_broker.name_server)
    assert send.stdin is not None
    send.stdin.write(b"k\tone\nk\tunfinished")
    send.stdin.flush()
    wait_until(lambda: _count(cli, topic) == 1, "the whole line arrived", 20)
    send.stdin.close()
    assert send.wait(20) == 0
    assert _count(cli, topic) == 2


def _count(cli: Cli, topic: str) -> int:
    return int(cli("topic", "describe", topic, "--json").objects[0]["count"])


def _wait_for_following(folder: Path) -> None:
    wait_until(lambda: "following" in (folder / "stderr").read_text(), "tail follows", 20)
