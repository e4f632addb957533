"""The frames of many pulls that differ only in where they begin and how many messages they want."""

from __future__ import annotations

from typing import Final

from rmq_ordered.protocol.command import RemotingCommand, encode_command
from rmq_ordered.protocol.frame import PREFIX

# As they stand in the header of a pull from 0 of 0 messages. Quotes inside of names are escaped, so
# nothing else in a header looks like this.
_COUNT: Final = b'"maxMsgNums":"0"'
_OFFSET: Final = b'"queueOffset":"0"'
_OPAQUE: Final = b'"opaque":0,'


class PullTemplate:
    """Gives the bytes of ``encode_command`` in an eighth of its time: a read sends thousands.

    Args:
        request: a pull from queue offset 0 of no messages, and whatever else the pulls have.
    """

    def __init__(self, request: RemotingCommand) -> None:
        header = encode_command(request, 0)[PREFIX.size :].replace(b"%", b"%%")
        for hole in (_COUNT, _OFFSET, _OPAQUE):
            before, after = header.split(hole)
            header = before + hole.replace(b"0", b"%d") + after
        self._header = header

    def encode(self, opaque: int, queue_offset: int, count: int) -> bytes:
        """The frame of one pull."""
        header = self._header % (count, queue_offset, opaque)
        return PREFIX.pack(4 + len(header), len(header)) + header
