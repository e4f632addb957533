"""Reading the JSON that Java brokers really send.

fastjson writes maps with integer keys (``{0:"addr"}``) and even with objects as keys
(``{{"queueId":0}:{...}}``). Both are read here; a key that is not a string becomes its JSON text,
which is what strict brokers send in the first place, so callers see one form only.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rmq_ordered.errors import RemoteProtocolError

_STRICT: Final = json.JSONDecoder()
_SPACES: Final = (" ", "\t", "\r", "\n")
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
# Deeper than anything RocketMQ sends; keeps hostile input from exhausting the stack.
_MAX_DEPTH: Final = 32
# An object with an ordinary first key is most likely ordinary altogether. Guessing wrong costs a
# look at everything before it, so it is given up where it does not pay.
_ORDINARY: Final = re.compile(r'\{\s*"')
_MAX_WRONG_GUESSES: Final = 32


def loads(data: bytes) -> Any:
    """Parse strict JSON or fastjson's dialect; raises RemoteProtocolError for anything else."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a body should be UTF-8 JSON: {error}") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _Dialect(text).document()


class _Dialect:
    """Recursive descent over one text; only what strict JSON lacks is done by hand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._guesses = _MAX_WRONG_GUESSES

    def document(self) -> Any:
        value = self._value(0)
        self._skip_space()
        if self._position != len(self._text):
            raise self._error("nothing more")
        return value

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise self._error(f"at most {_MAX_DEPTH} levels")
        self._skip_space()
        match self._text[self._position : self._position + 1]:
            case "{":
                return self._ordinary() or self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._string()
            case _:
                return self._scalar()

    def _ordinary(self) -> dict[str, Any] | None:
        """An object of strict JSON, read in one go; None where there is none, or an empty one."""
        if not self._guesses or not _ORDINARY.match(self._text, self._position):
            return None
        try:
            value, self._position = _STRICT.raw_decode(self._text, self._position)
        except (ValueError, RecursionError):
            self._guesses -= 1
            return None
        return dict(value)

    def _object(self, depth: int) -> dict[str, Any]:
        self._position += 1
        result: dict[str, Any] = {}
        if self._take("}"):
            return result
        while True:
            key = self._value(depth + 1)
            self._expect(":")
            name = key if isinstance(key, str) else json.dumps(key, separators=(",", ":"))
            result[name] = self._value(depth + 1)
            if self._take("}"):
                return result
            self._expect(",")

    def _array(self, depth: int) -> list[Any]:
        self._position += 1
        result: list[Any] = []
        if self._take("]"):
            return result
        while True:
            result.append(self._value(depth + 1))
            if self._take("]"):
                return result
            self._expect(",")

    def _string(self) -> str:
        try:
            value, self._position = _STRICT.raw_decode(self._text, self._position)
        except ValueError as error:
            raise self._error("a string") from error
        return str(value)

    def _scalar(self) -> Any:
        match = _SCALAR.match(self._text, self._position)
        if match is None:
            raise self._error("a value")
        try:
            value = json.loads(match.group())
        except ValueError as error:  # leading zeros, thousands of digits
            raise self._error("a value") from error
        self._position = match.end()
        return value

    def _skip_space(self) -> None:
        while self._text.startswith(_SPACES, self._position):
            self._position += 1

    def _take(self, character: str) -> bool:
        self._skip_space()
        if self._text.startswith(character, self._position):
            self._position += 1
            return True
        return False

    def _expect(self, character: str) -> None:
        if not self._take(character):
            raise self._error(f"'{character}'")

    def _error(self, expected: str) -> RemoteProtocolError:
        found = self._text[self._position : self._position + 20]
        return RemoteProtocolError(
            f"a JSON body should have {expected} at character {self._position}, found {found!r}"
        )
