"""Messages as bytes, one at a time: the readable reference for the columnar decoder.

A stored message, as brokers keep it in the commit log and send it in pull, POP and query answers,
one after another without separators (big-endian; offsets are those of IPv4 hosts, an IPv6 host is
12 bytes longer):

    offset  size  field
    0       4     totalSize: the whole record, this word included
    4       4     magic: 0xDAA320A7 (version 1) or 0xDAA320AB (version 2)
    8       4     bodyCRC: CRC-32 of the stored body, lowest 31 bits
    12      4     queueId
    16      4     flag: the user's
    20      8     queueOffset
    28      8     physicalOffset: commit-log offset
    36      4     sysFlag: compression, IPv6 hosts, transaction state, inner batch
    40      8     bornTimestamp, ms
    48      4+4   bornHost: address, port (16+4 if sysFlag has 0x10)
    56      8     storeTimestamp, ms
    64      4+4   storeHost: address, port (16+4 if sysFlag has 0x20)
    72      4     reconsumeTimes
    76      8     preparedTransactionOffset
    84      4     bodyLen
    88      n     body, compressed if sysFlag has 0x1
    88+n    1     topicLen, signed (2 bytes in version 2)
    ...     t     topic
    ...     2     propertiesLen, signed
    ...     p     properties

A message of a batch: of a SEND_BATCH_MESSAGE body, and of the body of a stored record whose sysFlag
has 0xC0 (topics with the attribute queue.type=BatchCQ keep a batch as one record). The messages of
such a record have the queue offsets from the record's on; what they do not say themselves is the
record's:

    0       4     totalSize
    4       4     magic, 0
    8       4     bodyCRC, 0
    12      4     flag
    16      4     bodyLen
    20      n     body
    20+n    2     propertiesLen
    22+n    p     properties

Java drops a malformed record and everything after it without a word; here it is an error.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.checksum import body_crc
from rmq_ordered.protocol.compression import compress_body, expand_body
from rmq_ordered.protocol.properties import decode_properties, encode_properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAGIC_V1: Final = 0xDAA320A7 - (1 << 32)
MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
# Version 1, IPv4 hosts, no body, no topic, no properties.
MIN_RECORD_BYTES: Final = 91

BORN_HOST_V6_FLAG: Final = 0x10
STORE_HOST_V6_FLAG: Final = 0x20
# Both bits: the body is itself a batch, stored as one record.
INNER_BATCH_FLAGS: Final = 0xC0

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">iiiiiqqiq")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_TOPIC_LENGTH: Final = {MAGIC_V1: struct.Struct(">b"), MAGIC_V2: _I16}
_QUEUE_ID_AT: Final = 12
_QUEUE_OFFSET_AT: Final = 20
_BATCH_HEAD: Final = struct.Struct(">iiiii")
_MIN_INNER_BYTES: Final = 22
_LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
_MAX_I64: Final = 2**63 - 1
_MAX_V1_TOPIC_BYTES: Final = 127


def decode_message(
    data: bytes | memoryview, position: int, *, broker_name: str, verify_crc: bool = True
) -> tuple[Message, int]:
    """Decodes the record at a byte position.

    ``sys_flag`` is given as stored, though the body is expanded. The body of an inner batch is the
    batch; ``unfold_message`` gives its messages.

    Returns:
        The message and the position after it.

    Raises:
        RemoteProtocolError: the record is malformed or fails its checksum.
    """
    record = _Record(data, position, broker_name)
    _, magic, crc, queue_id, flag, queue_offset, commit_log_offset, sys_flag, born_ms = record.read(
        _HEAD, "fixed fields"
    )
    if magic not in _TOPIC_LENGTH:
        raise record.malformed("magic 0xDAA320A7 or 0xDAA320AB", f"0x{magic & 0xFFFFFFFF:08X}")
    born_host = record.read_host("bornHost", is_v6=bool(sys_flag & BORN_HOST_V6_FLAG))
    store_ms = record.read_number(_I64, "storeTimestamp")
    store_host = record.read_host("storeHost", is_v6=bool(sys_flag & STORE_HOST_V6_FLAG))
    reconsume_times, prepared, body_length = record.read(_AFTER_HOSTS, "fields after the hosts")
    stored_body = record.take(body_length, "body")
    topic = record.take(record.read_number(_TOPIC_LENGTH[magic], "topicLen"), "topic")
    properties = record.take(record.read_number(_I16, "propertiesLen"), "properties")
    record.ensure_ended()
    if verify_crc:
        record.ensure_checksum(stored_body, crc)
    message = Message(
        queue=MessageQueue(topic.decode("utf-8", "replace"), broker_name, queue_id),
        queue_offset=queue_offset,
        commit_log_offset=commit_log_offset,
        body=record.expand(stored_body, sys_flag),
        properties=decode_properties(properties),
        born_timestamp_ms=born_ms,
        store_timestamp_ms=store_ms,
        born_host=born_host,
        store_host=store_host,
        sys_flag=sys_flag,
        flag=flag,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
    )
    return message, record.end


def decode_messages(
    body: bytes | memoryview, *, broker_name: str, verify_crc: bool = True
) -> Iterator[Message]:
    """Decodes the messages of an answer's body, in their order; inner batches are unfolded.

    Raises:
        RemoteProtocolError: a record is malformed or fails its checksum, or an inner batch lies.
    """
    position = 0
    while position < len(body):
        start = position
        message, position = decode_message(
            body, start, broker_name=broker_name, verify_crc=verify_crc
        )
        yield from unfold_message(message, body, start)


def unfold_message(message: Message, data: bytes | memoryview, start: int) -> Iterator[Message]:
    """The messages of a decoded record, which began at a byte position: itself, or a batch's.

    Raises:
        RemoteProtocolError: an inner batch lies.
    """
    if not is_inner_batch(message):
        yield message
        return
    try:
        inner = split_batch(message.body, message.queue_offset)
    except RemoteProtocolError as error:
        where = f"queue {message.queue.queue_id} of broker {message.queue.broker_name}"
        expected = "the messages of an inner batch"
        raise malformed(data, start, where=where, expected=expected, found=error) from error
    for one in inner:
        yield replace(
            message,
            queue_offset=one.queue_offset,
            body=one.body,
            properties=decode_properties(one.properties),
            flag=one.flag,
        )


def is_inner_batch(message: Message) -> bool:
    """Whether a record is, or a message comes from, a batch that is stored as one record."""
    return message.sys_flag & INNER_BATCH_FLAGS == INNER_BATCH_FLAGS


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """What a message of a stored batch has of its own; properties as they were sent."""

    queue_offset: int
    flag: int
    body: bytes
    properties: bytes


def split_batch(batch: bytes, first_offset: int) -> list[InnerMessage]:
    """Cuts the body of an inner batch into its messages, the first at a queue offset.

    Raises:
        RemoteProtocolError: there is no message, a length lies, or queue offsets overflow. The
            sentence does not know the record; the caller adds it.
    """
    found: list[InnerMessage] = []
    position = 0
    while position < len(batch):
        inner, position = _read_inner(batch, position, first_offset + len(found))
        found.append(inner)
    if not found:
        raise RemoteProtocolError("a batch without a message")
    if found[-1].queue_offset > _MAX_I64:
        raise RemoteProtocolError(f"{len(found)} messages from queue offset {first_offset} on")
    return found


def _read_inner(batch: bytes, position: int, queue_offset: int) -> tuple[InnerMessage, int]:
    remaining = len(batch) - position
    if remaining < _MIN_INNER_BYTES:
        raise RemoteProtocolError(f"{remaining} bytes where a message of a batch should begin")
    total, _, _, flag, body_length = _BATCH_HEAD.unpack_from(batch, position)
    if not 0 <= body_length <= remaining - _MIN_INNER_BYTES:
        raise RemoteProtocolError(
            f"bodyLen {body_length} where {remaining} bytes of the batch are left"
        )
    body_at = position + _BATCH_HEAD.size
    properties_at = body_at + body_length + _I16.size
    (length,) = _I16.unpack_from(batch, properties_at - _I16.size)
    end = properties_at + length
    if not properties_at <= end <= len(batch) or end != position + total:
        raise RemoteProtocolError(
            f"totalSize {total} and propertiesLen {length} where {remaining} bytes of the batch "
            "are left"
        )
    body, properties = batch[body_at : body_at + body_length], batch[properties_at:end]
    return InnerMessage(queue_offset, flag, body, properties), end


def encode_message(message: Message, *, version: Literal[1, 2] | None = None) -> bytes:
    """Encodes a record as a broker stores it; the body is compressed if ``sys_flag`` says so.

    The IPv6 bits of ``sys_flag`` are set from the hosts. Without a version, the topic's length
    decides, as in RocketMQ.

    Raises:
        LocalProtocolError: a field does not fit.
    """
    topic = message.queue.topic.encode()
    if version is None:
        version = 1 if len(topic) <= _MAX_V1_TOPIC_BYTES else 2
    magic = MAGIC_V1 if version == 1 else MAGIC_V2
    born_host, store_host = _encode_host(message.born_host), _encode_host(message.store_host)
    sys_flag = message.sys_flag & ~(BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG)
    sys_flag |= BORN_HOST_V6_FLAG if len(born_host) > 8 else 0
    sys_flag |= STORE_HOST_V6_FLAG if len(store_host) > 8 else 0
    body = compress_body(message.body, sys_flag)
    properties = encode_properties(message.properties)
    try:
        after_size = b"".join(
            [
                _I32.pack(magic),
                _I32.pack(body_crc(body)),
                _I32.pack(message.queue.queue_id),
                _I32.pack(message.flag),
                _I64.pack(message.queue_offset),
                _I64.pack(message.commit_log_offset),
                _I32.pack(sys_flag),
                _I64.pack(message.born_timestamp_ms),
                born_host,
                _I64.pack(message.store_timestamp_ms),
                store_host,
                _AFTER_HOSTS.pack(
                    message.reconsume_times, message.prepared_transaction_offset, len(body)
                ),
                body,
                _TOPIC_LENGTH[magic].pack(len(topic)),
                topic,
                _I16.pack(len(properties)),
                properties,
            ]
        )
    except struct.error as error:
        raise LocalProtocolError(
            f"{message.queue}: the message at queue offset {message.queue_offset} has a field that "
            f"does not fit its place on the wire: {error}"
        ) from error
    return _I32.pack(len(after_size) + _I32.size) + after_size


def encode_batch(messages: Sequence[OutgoingMessage]) -> bytes:
    """Encodes the body of SEND_BATCH_MESSAGE.

    Raises:
        LocalProtocolError: there is no message, or one cannot be written.
    """
    if not messages:
        raise LocalProtocolError("a batch needs at least one message, found none")
    parts: list[bytes] = []
    for message in messages:
        properties = encode_properties(message.properties)
        body_length = len(message.body)
        total = _BATCH_HEAD.size + body_length + _I16.size + len(properties)
        try:
            parts.append(_BATCH_HEAD.pack(total, 0, 0, message.flag, body_length))
        except struct.error as error:
            raise LocalProtocolError(
                f"flag {message.flag} does not fit 32 bits: {error}"
            ) from error
        parts += (message.body, _I16.pack(len(properties)), properties)
    return b"".join(parts)


def offset_message_id(store_host: str, commit_log_offset: int) -> str:
    """The id a broker gives to a message: where it lies, in hexadecimal."""
    return (_encode_host(store_host) + _I64.pack(commit_log_offset)).hex().upper()


def keeps_origin(queue: MessageQueue) -> bool:
    """Whether records that are pulled from a queue carry its topic and its id.

    Not those of light queues (LMQ): they are views of other topics' records. Java's clients write
    the queue that they asked for into every message and never look.
    """
    return not queue.topic.startswith(_LIGHT_QUEUE_PREFIX)


def ensure_origin(message: Message, queue: MessageQueue) -> None:
    """Raise RemoteProtocolError for a record that came from another queue than was asked for."""
    found = message.queue
    if keeps_origin(queue) and (found.topic, found.queue_id) != (queue.topic, queue.queue_id):
        raise RemoteProtocolError(
            f"{queue}: the message at queue offset {message.queue_offset} is malformed: expected "
            f"topic {queue.topic!r}, queue {queue.queue_id}, as was asked for, found topic "
            f"{found.topic!r}, queue {found.queue_id}"
        )


def malformed(
    data: bytes | memoryview, position: int, *, where: str, expected: str, found: object
) -> RemoteProtocolError:
    """The error for a record that cannot be accepted, with its queue offset if it has one."""
    queue_offset = _peek(data, position + _QUEUE_OFFSET_AT, _I64)
    known = "unknown" if queue_offset is None else str(queue_offset)
    return RemoteProtocolError(
        f"{where}: the message at queue offset {known} (byte {position} of {len(data)} received) "
        f"is malformed: expected {expected}, found {found}"
    )


class _Record:
    """One record, read front to back; never reads outside ``[position, end)``."""

    def __init__(self, data: bytes | memoryview, position: int, broker_name: str) -> None:
        self._data = data
        self._start = position
        self._position = position
        self._broker_name = broker_name
        size = _peek(data, position, _I32)
        remaining = len(data) - position
        if size is None or not MIN_RECORD_BYTES <= size <= remaining:
            stated = "" if size is None else f"totalSize {size} and "
            raise self.malformed(
                f"a whole record of at least {MIN_RECORD_BYTES} bytes",
                f"{stated}{remaining} bytes at the end",
            )
        self.end = position + size

    def take(self, size: int, what: str) -> bytes:
        remaining = self.end - self._position
        if not 0 <= size <= remaining:
            raise self.malformed(f"{what} of 0 to {remaining} bytes", f"{size}")
        start = self._position
        self._position += size
        return bytes(self._data[start : self._position])

    def read(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        return layout.unpack(self.take(layout.size, what))

    def read_number(self, layout: struct.Struct, what: str) -> int:
        (number,) = self.read(layout, what)
        return number

    def read_host(self, what: str, *, is_v6: bool) -> str:
        address = ipaddress.ip_address(self.take(16 if is_v6 else 4, what))
        port = self.read_number(_I32, what)
        return f"[{address}]:{port}" if is_v6 else f"{address}:{port}"

    def ensure_ended(self) -> None:
        if self._position != self.end:
            raise self.malformed(
                f"a record of {self._position - self._start} bytes, the sum of its parts",
                f"totalSize {self.end - self._start}",
            )

    def ensure_checksum(self, stored_body: bytes, crc: int) -> None:
        found = body_crc(stored_body)
        if found != crc:
            raise self.malformed(f"a body with CRC {crc}", f"CRC {found}")

    def expand(self, stored_body: bytes, sys_flag: int) -> bytes:
        try:
            return expand_body(stored_body, sys_flag)
        except RemoteProtocolError as error:
            expected = f"a body compressed as sysFlag {sys_flag} says"
            raise self.malformed(expected, str(error)) from error

    def malformed(self, expected: str, found: str) -> RemoteProtocolError:
        queue_id = _peek(self._data, self._start + _QUEUE_ID_AT, _I32)
        queue = "unknown queue" if queue_id is None else f"queue {queue_id}"
        where = f"{queue} of broker {self._broker_name}"
        return malformed(self._data, self._start, where=where, expected=expected, found=found)


def _peek(data: bytes | memoryview, position: int, layout: struct.Struct) -> int | None:
    if position + layout.size > len(data):
        return None
    (value,) = layout.unpack_from(data, position)
    return int(value)


def _encode_host(host: str) -> bytes:
    address, _, port = host.rpartition(":")
    try:
        return ipaddress.ip_address(address.strip("[]")).packed + _I32.pack(int(port))
    except (ValueError, struct.error) as error:
        raise LocalProtocolError(f"expected a host as '10.0.0.1:10911', found {host!r}") from error
