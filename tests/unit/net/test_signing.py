"""How a client signs: sessions of addresses, and no request twice the same."""

from concurrent.futures import ThreadPoolExecutor

from rmq_ordered.net.remoting import unchanged
from rmq_ordered.net.signing import signing
from rmq_ordered.protocol.acl import Credentials, sign
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ManualClock

COMMAND = RemotingCommand(310, ext_fields={"b": "T1"}, body=b"hello")
PLAIN, STRICT = Credentials("AK", "SK"), Credentials("AK", "SK", strict=True)


def nonce(command: RemotingCommand) -> tuple[str, int]:
    session, number = command.ext("Nonce").split(".")
    return session, int(number)


def test_without_strictness_requests_are_signed_as_rocketmq_does_or_not_at_all() -> None:
    assert signing(None, ManualClock()) is unchanged
    assert signing(PLAIN, ManualClock())(COMMAND, "mq:1") == sign(COMMAND, PLAIN)


def test_a_strict_request_says_where_to_and_when_and_has_no_other_signature() -> None:
    clock = ManualClock()
    signed = signing(STRICT, clock)(COMMAND, "mq:1")
    assert signed.ext("SignedFor") == "mq:1"
    assert signed.ext("SignedAt") == str(clock.wall_ms())
    assert "Signature" not in (signed.ext_fields or {})


def test_the_requests_to_an_address_are_counted_whichever_thread_makes_them() -> None:
    prepare = signing(STRICT, ManualClock())
    with ThreadPoolExecutor(8) as threads:
        signed = list(threads.map(lambda _: prepare(COMMAND, "mq:1"), range(500)))
    assert {nonce(one)[1] for one in signed} == set(range(500))
    assert len({nonce(one)[0] for one in signed}) == 1


def test_each_address_and_each_client_has_a_session_of_its_own() -> None:
    one, two = signing(STRICT, ManualClock()), signing(STRICT, ManualClock())
    sessions = [nonce(prepare(COMMAND, address))[0] for prepare in (one, two) for address in "ab"]
    assert len(set(sessions)) == 4
    assert all(len(session) == 22 for session in sessions)
