"""The properties string of a message: name 0x01 value 0x02, repeated, in UTF-8.

Nothing is escaped, so the two separators can never be part of a name or a value: encoding refuses
them, because a reader would see properties that nobody set. Decoding is as tolerant as RocketMQ's
``MessageDecoder``: it never fails, whatever the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmq_ordered.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"

# The length field of a stored message is a signed 16-bit number.
MAX_PROPERTIES_BYTES: Final = 0x7FFF

# Names as in RocketMQ's MessageConst.
PROPERTY_KEYS: Final = "KEYS"
PROPERTY_TAGS: Final = "TAGS"
PROPERTY_UNIQ_KEY: Final = "UNIQ_KEY"
PROPERTY_SHARDING_KEY: Final = "__SHARDINGKEY"
PROPERTY_WAIT: Final = "WAIT"
PROPERTY_DELAY: Final = "DELAY"
PROPERTY_RETRY_TOPIC: Final = "RETRY_TOPIC"
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"
PROPERTY_ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
PROPERTY_RECONSUME_TIME: Final = "RECONSUME_TIME"
PROPERTY_MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
PROPERTY_DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
PROPERTY_DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
PROPERTY_POP_CK: Final = "POP_CK"
PROPERTY_FIRST_POP_TIME: Final = "1ST_POP_TIME"


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Writes properties in the order of the mapping.

    An empty value is written, as Java does, but no reader gives it back.

    Raises:
        LocalProtocolError: a name is empty, a name or value holds a separator or is not Unicode
            text, or the whole is longer than a stored message can hold.
    """
    # Concatenated, not formatted: a null from somewhere must not become the text "None".
    text = "".join([name + "\x01" + value + "\x02" for name, value in properties.items()])
    count = len(properties)
    if text.count("\x01") != count or text.count("\x02") != count or "" in properties:
        raise _refusal(properties)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(properties) from error
    if len(encoded) > MAX_PROPERTIES_BYTES:
        raise LocalProtocolError(
            f"the properties {', '.join(map(repr, properties))} take {len(encoded)} bytes "
            f"together, but a message can hold {MAX_PROPERTIES_BYTES}: shorten or drop some"
        )
    return encoded


def decode_properties(encoded: bytes) -> dict[str, str]:
    """Reads a properties string the way RocketMQ does.

    A missing last separator is tolerated; entries without a name, a separator or a value are
    dropped; of two entries with one name the later wins; bytes that are not UTF-8 become U+FFFD.
    """
    properties: dict[str, str] = {}
    for entry in encoded.decode("utf-8", "replace").split(PROPERTY_SEPARATOR):
        name, _, value = entry.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def _refusal(properties: Mapping[str, str]) -> LocalProtocolError:
    for name, value in properties.items():
        if not name:
            return LocalProtocolError(
                f"a property with value {value!r} has an empty name: no reader would see it"
            )
        for part, text in (("name", name), ("value", value)):
            if NAME_VALUE_SEPARATOR in text or PROPERTY_SEPARATOR in text:
                return LocalProtocolError(
                    f"the {part} of property {name!r} holds byte 0x01 or 0x02, which separate "
                    f"properties on the wire and cannot be escaped: {text!r}"
                )
    # Nothing else keeps text from being written.
    name = next(name for name, value in properties.items() if not _is_unicode(name + value))
    return LocalProtocolError(
        f"property {name!r} holds a lone surrogate, which has no UTF-8 form: {properties[name]!r}"
    )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
